"""A server that speaks vLLM-Omni's speech protocol (0.26, container v1.5) word for word, a CPU voice behind it."""
