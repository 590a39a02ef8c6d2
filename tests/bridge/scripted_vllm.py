"""A scripted server that keeps vLLM's realtime protocol and misbehaves on request: run as a process, killed, stopped.

`/health` answers 200, `/metrics` with three gauges. `/v1/realtime` takes its script from the query, so that each
session can have its own:

- `tail=S`: after the final commit, deltas for S seconds before `transcription.done`
- `big=N`: the final text has N characters
- `silent=1`: no output whatever comes in
- `accept_delay=S`: the handshake is answered after S seconds
- `close=CODE`: closes with CODE at the first append
- `flood=N`: N deltas of 64 KiB at once after the first commit
- `deaf=1`: reads nothing after the session was opened
- `echo=1`: sends every message back as it came

Every message and close is noted as a JSON line in the file `SCRIPTED_VLLM_NOTES`.
"""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

WORDS_PER_APPEND = "w"

METRICS = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="some/model"} 3.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="some/model"} 1.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="some/model"} 0.4375
"""
"""As vLLM's server writes them."""


def note(**fields: Any) -> None:
    with Path(os.environ["SCRIPTED_VLLM_NOTES"]).open("a") as notes:
        notes.write(json.dumps(fields) + "\n")


def script_of(connection: ServerConnection) -> dict[str, str]:
    assert connection.request is not None
    return dict(parse_qsl(urlsplit(connection.request.path).query))


async def answer_http(connection: ServerConnection, request: Request) -> Response | None:
    path = urlsplit(request.path)
    if path.path == "/health":
        return connection.respond(HTTPStatus(int(os.environ.get("SCRIPTED_VLLM_HEALTH", "200"))), "")
    if path.path == "/metrics":
        return connection.respond(HTTPStatus.OK, METRICS)
    if path.path != "/v1/realtime":
        return connection.respond(HTTPStatus.NOT_FOUND, "")
    await asyncio.sleep(float(dict(parse_qsl(path.query)).get("accept_delay", "0")))
    return None


class Conversation:
    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.script = script_of(connection)
        self.appended = 0
        self.generating = False

    async def send(self, **event: Any) -> None:
        await self.connection.send(json.dumps(event))

    async def run(self) -> None:
        await self.send(type="session.created", id="sess-1", created=0)
        if "deaf" in self.script:
            await asyncio.sleep(3600)
        async for message in self.connection:
            if "echo" in self.script:
                await self.connection.send(message)
                continue
            event = json.loads(message)
            note(event=event["type"], final=event.get("final", False), audio=len(event.get("audio", "")))
            await self.take(event)

    async def take(self, event: dict[str, Any]) -> None:
        if "silent" in self.script:
            return
        if event["type"] == "input_audio_buffer.append":
            base64.b64decode(event["audio"], validate=True)
            self.appended += 1
            if "close" in self.script:
                await self.connection.close(int(self.script["close"]), "scripted")
            elif self.generating:
                await self.send(type="transcription.delta", delta=f"{WORDS_PER_APPEND} ")
        elif event["type"] == "input_audio_buffer.commit" and not event.get("final"):
            self.generating = True
            for _ in range(int(self.script.get("flood", "0"))):
                await self.send(type="transcription.delta", delta="f" * 65536)
        elif event["type"] == "input_audio_buffer.commit" and self.generating:
            for step in range(int(float(self.script.get("tail", "0")) * 10)):
                await self.send(type="transcription.delta", delta=f"t{step} ")
                await asyncio.sleep(0.1)
            self.generating = False
            text = "b" * int(self.script.get("big", "0")) or f"{WORDS_PER_APPEND} " * self.appended
            await self.send(type="transcription.done", text=text, usage={"total_tokens": self.appended})


async def converse(connection: ServerConnection) -> None:
    note(event="opened")
    try:
        await Conversation(connection).run()
    except ConnectionClosed:
        pass
    finally:
        await connection.wait_closed()
        note(event="closed", code=connection.close_code)


async def main(port: int) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os._exit, 0)
    async with serve(converse, "127.0.0.1", port, process_request=answer_http, max_size=None, compression=None):
        note(event="listening", arguments=sys.argv[1:], vllm_port=os.environ.get("VLLM_PORT", ""))
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    if exit_code := os.environ.get("SCRIPTED_VLLM_EXIT"):
        sys.exit(int(exit_code))
    if os.environ.get("SCRIPTED_VLLM_CHILD"):
        # vLLM's engine runs in a process of its own; this one does not listen to SIGTERM.
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        note(event="child", pid=subprocess.Popen([sys.executable, "-c", stubborn]).pid)
    asyncio.run(main(int(sys.argv[sys.argv.index("--port") + 1])))
