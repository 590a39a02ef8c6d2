"""Small CPU speech engines behind the exact wire protocols of the stand-in servers.

A transcriber is given only audio and a voice only text, so what a test says at run time is what it hears back.
Nothing here is a model of how fast or how well the real models do.
"""
