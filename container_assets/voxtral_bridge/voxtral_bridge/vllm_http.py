"""Plain HTTP requests to vLLM on loopback."""

import asyncio

import h11

from voxtral_bridge.http_server import Answer


async def ask_vllm(port: int, method: str, path: str, *, content_type: str = "", body: bytes = b"") -> Answer:
    """Send one request and return the whole answer; the caller has a deadline.

    Raises:
        OSError: nobody listens, or the connection broke.
        h11.RemoteProtocolError: what came is no HTTP answer.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        http = h11.Connection(h11.CLIENT)
        headers = [("host", "127.0.0.1"), ("connection", "close")]
        if body:
            headers += [("content-length", str(len(body))), ("content-type", content_type)]
        request = h11.Request(method=method, target=path, headers=headers)
        for part in (request, h11.Data(body), h11.EndOfMessage()) if body else (request, h11.EndOfMessage()):
            writer.write(http.send(part) or b"")  # not drained: an answer may come before all of it is read
        status, answered_type, answer = 0, "", bytearray()
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(64 * 1024))
            elif isinstance(event, h11.Response):
                status = event.status_code
                answered_type = dict(event.headers).get(b"content-type", b"").decode("latin-1")
            elif isinstance(event, h11.Data):
                answer += event.data
            elif isinstance(event, h11.EndOfMessage):
                return Answer(status, bytes(answer), answered_type)
    finally:
        writer.transport.abort()
