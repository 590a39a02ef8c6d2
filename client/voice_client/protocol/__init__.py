"""The two wire protocols as typed events, with no input or output: `realtime` hears, `speech` speaks.

Both modules parse one server message to one frozen event and encode one client command to one message. An event of
a type this release does not know becomes `Unknown` and is left to the session; a message that breaks the protocol
raises `voice_client.errors.ProtocolError`. Events hide spoken words from their `repr`, so that a logged event cannot
leak them.
"""
