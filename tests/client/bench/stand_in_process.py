"""An ear and a voice whose every delay and fault is known, behind the real data plane. Prints one JSON line.

Both are WebSocket servers that speak the models' protocols. Each delay is drawn from the settings, waited for, and then
written to the log as long as it really was: a busy machine wakes a sleeper late, and that is not the bench's doing.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from voice_local.data_plane import DataPlane, DataPlaneSettings, TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointStatus, EndpointView, ServingContainer

RATE = 24_000


@dataclass
class Behaviour:
    """What is injected. Times in seconds; a pair is drawn from uniformly."""

    texts: dict[str, str] = field(default_factory=dict)
    """What the ear hears, by the bytes of the audio."""
    partial: tuple[float, float] = (0.2, 0.2)
    """From the first audio of an utterance to the first words."""
    final: tuple[float, float] = (0.2, 0.2)
    """From the end of the audio to the final text."""
    behind: float = 0.0
    """Added to `final` for each second of audio when more than one utterance is open: a server that cannot keep up."""
    wrong_word_when_busy: bool = False
    """One word of each utterance is heard wrong while more than one is open."""
    fails_every: int = 0
    """Each so-many-th utterance ends with an error of the model instead."""
    drops_every: int = 0
    """Each so-many-th utterance ends with the container's socket."""
    first_audio: tuple[float, float] = (0.2, 0.2)
    """From the text to the first audio."""
    silence: float = 0.0
    """Silence in front of the voice."""
    frames: int = 10
    """Frames of 100 ms of an utterance spoken."""
    frame_every: float = 0.02
    gap: float = 0.0
    """A halt before the last frame: longer than what was sent ahead, and playback runs dry."""


class StandIn:
    """Both servers."""

    def __init__(self, behaviour: Behaviour, log: Path) -> None:
        self._behaviour = behaviour
        self._log = log.open("a", buffering=1)
        self._draws = random.Random(3)  # noqa: S311 - no secret
        self._open = 0
        self._utterances = 0

    async def _delay(self, name: str, between: tuple[float, float], extra: float = 0.0) -> None:
        began = time.monotonic()
        await asyncio.sleep(self._draws.uniform(*between) + extra)
        self._log.write(json.dumps({name: time.monotonic() - began}) + "\n")

    def _fault(self) -> str | None:
        self._utterances += 1
        for name, every in (("fails", self._behaviour.fails_every), ("drops", self._behaviour.drops_every)):
            if every and self._utterances % every == 0:
                self._log.write(json.dumps({name: self._utterances}) + "\n")
                return name
        self._log.write(json.dumps({"good": self._utterances}) + "\n")
        return None

    async def ear(self, socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            await socket.send(json.dumps({"type": "session.created", "id": "sess-1"}))
            audio = 0
            words: asyncio.Task[None] | None = None
            busy = False
            async for message in socket:
                event = json.loads(message)
                match event["type"], event.get("final", False):
                    case "input_audio_buffer.append", _:
                        if not audio:
                            words = asyncio.create_task(self._first_words(socket))
                        audio += len(event["audio"]) * 3 // 4 - event["audio"].count("=")
                    case "input_audio_buffer.commit", False:
                        audio = 0
                        self._open += 1
                        busy = self._open > 1
                    case "input_audio_buffer.commit", True:
                        assert words is not None
                        await self._heard(socket, audio, busy=busy)
                        words.cancel()
                        self._open -= 1

    async def _first_words(self, socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self._delay("partial", self._behaviour.partial)
            await socket.send(json.dumps({"type": "transcription.delta", "delta": "well"}))

    async def _heard(self, socket: ServerConnection, audio: int, *, busy: bool) -> None:
        if (fault := self._fault()) == "drops":
            self._open -= 1
            socket.transport.abort()
            return
        if fault == "fails":
            await socket.send(json.dumps({"type": "error", "error": "the engine is broken", "code": "unknown_event"}))
            return
        extra = self._behaviour.behind * audio / 32_000 if busy else 0.0
        await self._delay("final", self._behaviour.final, extra)
        text = self._behaviour.texts.get(str(audio), "")
        if busy and self._behaviour.wrong_word_when_busy:
            text = " ".join(["wrong", *text.split()[1:]])
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        await socket.send(json.dumps({"type": "transcription.done", "text": text, "usage": usage}))

    async def voice(self, socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            utterance = 0
            async for message in socket:
                if json.loads(message)["type"] == "input.done":
                    await self._spoken(socket, utterance)
                    utterance += 1

    async def _spoken(self, socket: ServerConnection, utterance: int) -> None:
        behaviour = self._behaviour
        common = {"utterance_index": utterance, "sentence_index": 0}
        fault = self._fault()
        if fault == "drops":
            socket.transport.abort()
            return
        if fault == "fails":
            await socket.send(json.dumps({"type": "error", "message": "no voice today"}))
            await socket.send(json.dumps({"type": "session.done", "total_sentences": 0, **common}))
            return
        await self._delay("first_audio", behaviour.first_audio)
        begin = {"type": "audio.start", "format": "pcm", "sample_rate": RATE, **common}
        await socket.send(json.dumps(begin))
        tone = (np.sin(np.arange(RATE * behaviour.frames // 10) / 20) * 9000 + 400).astype("<i2")
        pcm = bytes(2 * int(behaviour.silence * RATE)) + tone.tobytes()
        size = RATE // 10 * 2
        pieces = [pcm[at : at + size] for at in range(0, len(pcm), size)]
        for number, piece in enumerate(pieces):
            if number == len(pieces) - 1 and behaviour.gap:
                await asyncio.sleep(behaviour.gap)
            await socket.send(piece)
            await asyncio.sleep(behaviour.frame_every)
        await socket.send(json.dumps({"type": "audio.done", "total_bytes": len(pcm), "error": False, **common}))
        await socket.send(json.dumps({"type": "session.done", "total_sentences": 1, **common}))


class Directory:
    """`ear` and `voice`, both in service."""

    def __init__(self, **ports: int) -> None:
        self._endpoints = {
            name: EndpointView(
                name, EndpointStatus.IN_SERVICE, (ServingContainer("AllTraffic", port, bidirectional=True),)
            )
            for name, port in ports.items()
        }

    def find(self, endpoint_name: str) -> EndpointView | None:
        return self._endpoints.get(endpoint_name)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--behaviour", type=json.loads, default={})
    options = parser.parse_args()
    stand_in = StandIn(Behaviour(**options.behaviour), options.folder / "injected.jsonl")
    settings: dict[str, Any] = {"compression": None, "max_size": None, "close_timeout": 1}
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    identity = LocalIdentity()
    tls = TlsMaterial.create(options.folder)
    async with (
        serve(stand_in.ear, "127.0.0.1", 0, **settings) as ear,
        serve(stand_in.voice, "127.0.0.1", 0, **settings) as voice,
        DataPlane(
            Directory(ear=ear.sockets[0].getsockname()[1], voice=voice.sockets[0].getsockname()[1]),
            identity,
            tls=tls,
            port=0,
            settings=DataPlaneSettings(accept_seconds=20.0),
        ) as plane,
    ):
        ready = {
            "url": plane.url,
            "ca_bundle": str(tls.ca_bundle),
            "access_key": identity.access_key_id,
            "secret_key": identity.secret_access_key,
            "region": identity.region,
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stopped.wait()


asyncio.run(main())
