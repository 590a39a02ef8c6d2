"""One speech-to-text and one text-to-speech stream by whatever release of the SDK this environment holds.

Run by a Python of its own, told what to do by one JSON object on stdin, answers with one on stdout. Imports nothing
but the SDK: releases before 0.8 name the client differently, releases before 0.10 the configuration, and from 0.11 on
the transport that can stream both ways has to be chosen.
"""

import asyncio
import base64
import importlib.metadata
import json
import sys
from typing import Any

from aws_sdk_sagemaker_runtime_http2 import client as clients
from aws_sdk_sagemaker_runtime_http2 import config as configs
from aws_sdk_sagemaker_runtime_http2.models import (
    InvokeEndpointWithBidirectionalStreamInput,
    RequestPayloadPart,
    RequestStreamEventPayloadPart,
)
from smithy_aws_core.identity import StaticCredentialsResolver
from smithy_http.aio.crt import AWSCRTHTTPClient, AWSCRTHTTPClientConfig

DEADLINE = 60.0
MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
SECONDS_OF_AUDIO = 3


async def make_client(told: dict[str, Any]) -> Any:
    settings = {
        "endpoint_uri": told["url"],
        "region": told["region"],
        "aws_access_key_id": told["access_key"],
        "aws_secret_access_key": told["secret_key"],
        "aws_credentials_identity_resolver": StaticCredentialsResolver(),
        "transport": AWSCRTHTTPClient(client_config=AWSCRTHTTPClientConfig(force_http_2=True)),
    }
    if hasattr(configs, "AsyncSageMakerRuntimeHTTP2Config"):
        config = await configs.AsyncSageMakerRuntimeHTTP2Config.resolve(**settings)
    else:
        config = configs.Config(**settings)
    made = getattr(clients, "AsyncSageMakerRuntimeHTTP2Client", None) or clients.SageMakerRuntimeHTTP2Client
    return made(config=config)


class Stream:
    """One open stream."""

    def __init__(self, stream: Any, receiver: Any) -> None:
        self._stream = stream
        self._receiver = receiver

    async def send(self, event: dict[str, Any]) -> None:
        part = RequestPayloadPart(bytes_=json.dumps(event).encode(), data_type="UTF8")
        await self._stream.input_stream.send(RequestStreamEventPayloadPart(value=part))

    async def receive(self) -> dict[str, Any] | bytes | None:
        event = await self._receiver.receive()
        if event is None:
            return None
        part = event.value
        return json.loads(part.bytes_) if part.data_type == "UTF8" else bytes(part.bytes_)

    async def end_input(self) -> None:
        await self._stream.input_stream.close()


async def open_stream(client: Any, endpoint: str, path: str) -> Stream:
    request = InvokeEndpointWithBidirectionalStreamInput(endpoint_name=endpoint, model_invocation_path=path)
    stream = await client.invoke_endpoint_with_bidirectional_stream(request)
    _, receiver = await stream.await_output()
    return Stream(stream, receiver)


async def hear(client: Any, endpoint: str) -> str:
    stream = await open_stream(client, endpoint, "v1/realtime")
    await stream.receive()  # session.created
    await stream.send({"type": "session.update", "model": MODEL})
    await stream.send({"type": "input_audio_buffer.commit"})
    step = base64.b64encode(bytes(16_000 * 2 // 10)).decode()
    for _ in range(SECONDS_OF_AUDIO * 10):
        await stream.send({"type": "input_audio_buffer.append", "audio": step})
    await stream.send({"type": "input_audio_buffer.commit", "final": True})
    while isinstance(event := await stream.receive(), dict):
        if event["type"] == "transcription.done":
            await stream.end_input()
            while await stream.receive() is not None:
                pass
            return str(event["text"])
    raise RuntimeError("the stream ended before transcription.done")


async def speak(client: Any, endpoint: str, text: str) -> int:
    stream = await open_stream(client, endpoint, "v1/audio/speech/stream")
    await stream.send({"type": "session.config", "voice": "Vivian", "stream_audio": True, "response_format": "pcm"})
    await stream.send({"type": "input.text", "text": text})
    await stream.send({"type": "input.done"})
    size = 0
    while (event := await stream.receive()) is not None:
        if isinstance(event, bytes):
            size += len(event)
        elif event["type"] == "session.done":
            await stream.send({"type": "session.close"})
    await stream.end_input()
    return size


async def main() -> None:
    told = json.loads(sys.stdin.readline())
    async with asyncio.timeout(DEADLINE):
        client = await make_client(told)
        heard = await hear(client, told["ear"])
        spoken = await speak(client, told["voice"], "one two three four")
    release = importlib.metadata.version("aws-sdk-sagemaker-runtime-http2")
    print(json.dumps({"release": release, "heard": heard, "spoken": spoken}), flush=True)


asyncio.run(main())
