"""A server that speaks vLLM's realtime protocol word for word, with a small CPU engine behind it."""
