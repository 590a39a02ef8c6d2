"""What speaking costs in the client, beside a bare WebSocket client on the same server in the same run.

    python benchmarks/speak.py [--rounds 40] [--seconds-of-speech 60] [--stage STAGE] [--json]

Three processes share the machine: a stand-in vLLM-Omni that plays tones, the local data plane in front of it, and this
one. The two ways take turns, so that what else the machine does hits both:

    client   Synthesizer over voice_client's transport and the data plane: HTTP/2, TLS, every event signed
    bare     `websockets` straight to the server, no data plane: JSON out, bytes in, and nothing else

Measured for each: `ttfa_ms` from the text to the first audible sample, warm (a stream is open and configured) and cold
(nothing is open: name, TLS, stream and configuration come first); for the client `cancel_ms`, from calling cancel() to
the loop over the audio being over, and `next_ttfa_ms`, to the first sound of the next text after it; and
`cpu_us_per_chunk`, the CPU time of this process for one chunk of speech. Medians, with the 95th percentile beside them.

With --stage the client alone is measured, against the endpoint that is deployed there, with the credentials of your
environment.

The data plane's work is in the client's figures and not in the bare ones, since nobody reaches SageMaker without.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect

from voice_client.audio.pcm import first_audible_sample
from voice_client.session import SpeechChunk, Synthesizer
from voice_client.session.connection import MessageStream, StreamOpener
from voice_client.transport import Identity, StaticIdentity, StreamTarget, VoiceTransport

MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
TEXT = "Good morning, how are you today?"
GOALS = {"ttfa_above_bare_ms": 15.0, "cancel_ms": 50.0}
STEP_SECONDS = 60.0
"""Longest time of one step; a step that takes longer has failed."""
READY_SECONDS = 60.0
SECONDS_PER_WORD = 0.25
"""What the stand-in's tones last."""


@dataclass
class Times:
    """Milliseconds of one measure over all rounds."""

    values: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Return median and 95th percentile."""
        ordered = sorted(self.values)
        return {
            "median": round(statistics.median(ordered), 2),
            "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 2),
        }


@dataclass
class Way:
    """The raw results of one way."""

    cold: Times = field(default_factory=Times)
    warm: Times = field(default_factory=Times)
    cancel: Times = field(default_factory=Times)
    after_cancel: Times = field(default_factory=Times)
    cpu_us_per_chunk: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """The result."""

    rounds: int
    client: dict[str, object]
    bare: dict[str, object] | None
    """None where there is no bare way."""
    ttfa_above_bare_ms: float | None
    goals: dict[str, float]
    goals_met: dict[str, bool]


def sound_at(pcm: bytes) -> bool:
    """Whether something can be heard in a chunk."""
    return first_audible_sample(pcm) is not None


@asynccontextmanager
async def bare_stream(url: str) -> AsyncIterator[ClientConnection]:
    """Open and configure a WebSocket."""
    async with connect(url, compression=None, max_size=None) as stream:
        config = {"type": "session.config", "model": MODEL, "response_format": "pcm", "stream_audio": True}
        await stream.send(json.dumps(config))
        yield stream


async def bare_speak(stream: ClientConnection, text: str) -> tuple[float, int]:
    """Speak; return the seconds to the first sound and the count of chunks."""
    began, first, chunks = time.perf_counter(), 0.0, 0
    await stream.send(json.dumps({"type": "input.text", "text": text}))
    await stream.send(json.dumps({"type": "input.done"}))
    async for message in stream:
        if isinstance(message, bytes):
            chunks += 1
            if not first and sound_at(message):
                first = time.perf_counter() - began
        elif json.loads(message)["type"] == "session.done":
            return first, chunks
    raise RuntimeError("the server ended the stream")


async def speak(voice: Synthesizer, text: str) -> tuple[float, int]:
    """Speak; return the seconds to the first sound and the count of chunks."""
    began, first, chunks = time.perf_counter(), 0.0, 0
    async for event in voice.speak(text):
        if isinstance(event, SpeechChunk):
            chunks += 1
            if not first and sound_at(event.pcm):
                first = time.perf_counter() - began
    return first, chunks


async def interrupt(voice: Synthesizer, text: str) -> float:
    """Cancel while the voice is speaking; return the seconds until its loop is over."""
    speech, ended, begun = voice.speak(text), 0.0, asyncio.Event()

    async def listen() -> None:
        nonlocal ended
        async for _ in speech:
            begun.set()
        ended = time.perf_counter()

    listening = asyncio.create_task(listen())
    await begun.wait()
    await asyncio.sleep(0.03)
    called = time.perf_counter()
    await speech.cancel()
    await listening
    return ended - called


class Deployed:
    """The client's way to the endpoint of a stage."""

    url = None

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def voice(self) -> "contextlib.AbstractAsyncContextManager[Synthesizer]":
        """Return a voice with a connection of its own."""
        return Synthesizer.connect(stage=self._stage)


class Endpoint:
    """The two ways to one server."""

    def __init__(self, ready: dict[str, str], port: int) -> None:
        self.url = f"ws://127.0.0.1:{port}/v1/audio/speech/stream"
        self._ready = ready

    def transport(self) -> VoiceTransport:
        """Return a transport with no connection yet."""
        ready = self._ready
        target = StreamTarget(ready["endpoint"], ready["region"], ready["url"], Path(ready["ca_bundle"]))
        return VoiceTransport(target, identity=StaticIdentity(Identity(ready["access_key"], ready["secret_key"])))

    @asynccontextmanager
    async def voice(self) -> AsyncIterator[Synthesizer]:
        """Return a voice with a connection of its own."""
        async with self.transport() as transport, Synthesizer(_opener(transport), model=MODEL) as voice:
            yield voice


def _opener(transport: VoiceTransport) -> StreamOpener:
    async def open_stream() -> MessageStream:
        return await transport.open_stream("v1/audio/speech/stream")

    return open_stream


async def measure(endpoint: Endpoint | Deployed, *, rounds: int, seconds: float) -> tuple[Way, Way]:
    """Take all measures, those of the bare way where there is one."""
    client, bare = Way(), Way()
    text = " ".join(["Word"] * int(seconds / SECONDS_PER_WORD))
    async with AsyncExitStack() as stack:
        voice = await stack.enter_async_context(endpoint.voice())
        stream = await stack.enter_async_context(bare_stream(endpoint.url)) if endpoint.url is not None else None
        await speak(voice, TEXT)
        if stream is not None:
            await bare_speak(stream, TEXT)
        for _ in range(rounds):
            async with asyncio.timeout(STEP_SECONDS):
                client.warm.values.append(1000 * (await speak(voice, TEXT))[0])
                client.cancel.values.append(1000 * await interrupt(voice, LONG))
                client.after_cancel.values.append(1000 * (await speak(voice, TEXT))[0])
                if stream is not None:
                    bare.warm.values.append(1000 * (await bare_speak(stream, TEXT))[0])
        for _ in range(max(3, rounds // 8)):
            async with asyncio.timeout(STEP_SECONDS):
                client.cpu_us_per_chunk.append(await _cpu(lambda: speak(voice, text)))
                if stream is not None:
                    bare.cpu_us_per_chunk.append(await _cpu(partial(bare_speak, stream, text)))
    for _ in range(max(3, rounds // 4)):
        async with asyncio.timeout(STEP_SECONDS):
            began = time.perf_counter()
            async with endpoint.voice() as voice:
                opened = time.perf_counter() - began
                client.cold.values.append(1000 * (opened + (await speak(voice, TEXT))[0]))
            if endpoint.url is not None:
                began = time.perf_counter()
                async with bare_stream(endpoint.url) as stream:
                    opened = time.perf_counter() - began
                    bare.cold.values.append(1000 * (opened + (await bare_speak(stream, TEXT))[0]))
    return client, bare


LONG = "One two three four five six seven eight nine ten. " * 40
"""More than waits for a listener, so that the server is speaking when it is interrupted."""


async def _cpu(speaking: Callable[[], Awaitable[tuple[float, int]]]) -> float:
    began = time.process_time()
    _, chunks = await speaking()
    return (time.process_time() - began) / chunks * 1e6


def report(client: Way, bare: Way, rounds: int) -> Report:
    """Work the figures out."""

    def figures(way: Way) -> dict[str, object]:
        told: dict[str, object] = {
            "ttfa_ms": {"cold": way.cold.summary(), "warm": way.warm.summary()},
            "cpu_us_per_chunk": round(statistics.median(way.cpu_us_per_chunk), 1),
        }
        if way.cancel.values:
            told |= {"cancel_ms": way.cancel.summary(), "next_ttfa_ms": way.after_cancel.summary()}
        return told

    met = {"cancel_ms": client.cancel.summary()["p95"] <= GOALS["cancel_ms"]}
    above = None
    if bare.warm.values:
        above = round(statistics.median(client.warm.values) - statistics.median(bare.warm.values), 2)
        met["ttfa_above_bare_ms"] = above <= GOALS["ttfa_above_bare_ms"]
    return Report(rounds, figures(client), figures(bare) if bare.warm.values else None, above, GOALS, met)


@contextmanager
def _process(log: Path, ready: Callable[[], object], *arguments: str, **environment: str) -> Iterator[None]:
    with log.open("wb") as output:
        running = subprocess.Popen(
            [sys.executable, "-m", *arguments], env=os.environ | environment, stdout=output, stderr=output
        )
    try:
        end = time.monotonic() + READY_SECONDS
        while not ready():
            if running.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{arguments[0]} did not start:\n{log.read_text()}")
            time.sleep(0.05)
        yield
    finally:
        running.terminate()
        try:
            running.wait(5)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait(5)


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=2).close()
    except OSError:
        return False
    return True


@contextmanager
def running_endpoint() -> Iterator[Endpoint]:
    """Start the server and the data plane."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        log = folder / "plane.log"
        stack.enter_context(
            _process(
                folder / "omni.log",
                lambda: _answers(port),
                "voice_local.containers.stand_in_omni",
                "serve",
                VOICE_LOCAL_TTS_ENGINE="deterministic",
                SM_VLLM_MODEL=MODEL,
                SAGEMAKER_BIND_TO_PORT=str(port),
            )
        )
        plane = ("voice_local.data_plane", "--container-port", str(port), "--endpoint-name", "mouth")
        ready = re.compile(r"^\{.*\}$", re.MULTILINE)
        stack.enter_context(_process(log, lambda: ready.search(log.read_text()), *plane, "--accept-seconds", "10"))
        yield Endpoint(json.loads(ready.findall(log.read_text())[0]), port)


def main() -> int:
    """Measure and print; the exit code is 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="of texts, interruptions and texts after them (40)")
    parser.add_argument("--seconds-of-speech", type=float, default=60.0, help="for the CPU time of a chunk (60)")
    parser.add_argument("--stage", help="measure the client against a deployed stage")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.rounds < 1 or not 1 <= options.seconds_of_speech <= 100:
        parser.error("--rounds must be 1 or more, --seconds-of-speech 1 to 100")
    with nullcontext(Deployed(options.stage)) if options.stage else running_endpoint() as endpoint:
        client, bare = asyncio.run(measure(endpoint, rounds=options.rounds, seconds=options.seconds_of_speech))
    result = report(client, bare, options.rounds)
    if options.json:
        print(json.dumps(asdict(result), indent=2))
    else:
        for name, figures in (("client", result.client), ("bare", result.bare)):
            if figures is None:
                continue
            print(name)
            for measure_name, value in figures.items():
                print(f"  {measure_name:18} {value}")
        for goal, met in result.goals_met.items():
            print(f"{goal} <= {result.goals[goal]:g}: {'met' if met else 'MISSED'}")
    return 0 if all(result.goals_met.values()) else 1


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
