"""Piper behind a pipe: the GPL-3 engine runs in a process of its own, and nothing here but `worker.py` imports it."""
