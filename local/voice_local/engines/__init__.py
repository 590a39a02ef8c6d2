"""Small CPU speech engines behind the exact wire protocols of the stand-in servers.

A transcriber is given only audio and a voice only text, so what a test says at run time is what it hears back.
Nothing here is a model of how fast or how well the real models do.
"""

import os

# ONNX Runtime (voice activity, Piper) reports each model it loads to its maker, from release 1.29 on and by default.
# It reads this variable when it is loaded; the processes that an engine starts inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
