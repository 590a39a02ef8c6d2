"""What the local cloud's small engines hear and say, how well and how soon.

    python benchmarks/engines.py [--parts librivox made_speech voice] [--passages 11] [--json]

The ear: the real stand-in server in a process of its own, over its WebSocket, at the speed of life. It hears the five
LibriVox clips of tests/recordings and passages of text spoken by Piper in nine variants, first one session at a time,
then three at once. Offline is the same model given each recording whole. The voice: Piper's worker, first sound and
speed, and how long an interrupted listener's successor waits.

These figures say nothing about the real models. Run it on a machine that does nothing else: it takes about 4 minutes.
Exit code 1 when a session failed, not when a goal was missed: the result says which were met.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import soxr
from numpy.typing import NDArray

from tests.local.engines.live_session import MODEL, RATE, LiveSession, live_session
from voice_local.engines.piper.client import PiperVoice
from voice_local.engines.piper.variants import VARIANTS
from voice_local.engines.whisper_live import WhisperLive
from voice_local.word_error_rate import normalized, word_error_rate

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "recordings"
PASSAGES = ROOT / "tests" / "local" / "engines" / "passages.txt"
PARTS = ("librivox", "made_speech", "voice")
AT_ONCE = 3
START_SECONDS = 60.0
GOAL_WER, GOAL_FIRST, GOAL_FINAL, GOAL_RATIO = 0.08, 1.5, 0.6, 1.5
SENTENCE = "Good morning, and thank you for calling about your order today."
LONG_SENTENCE = (
    "He said that he would come, but that nobody should wait for him, because the road along the river was bad."
)


@dataclass(frozen=True)
class Clip:
    """Speech and what is said in it."""

    samples: NDArray[np.int16]
    text: str


def recordings() -> list[Clip]:
    """Read the five clips of human speech."""
    clips = []
    for name, text in json.loads((RECORDINGS / "transcripts.json").read_text(encoding="utf-8")).items():
        with wave.open(str(RECORDINGS / name)) as file:
            clips.append(Clip(np.frombuffer(file.readframes(file.getnframes()), dtype="<i2"), text))
    return clips


async def made_speech(voice: PiperVoice, count: int) -> list[Clip]:
    """Let Piper speak passages, each in another variant."""
    clips = []
    for text, name in zip(PASSAGES.read_text(encoding="utf-8").splitlines()[:count], _endless(VARIANTS), strict=False):
        pcm = b"".join([piece async for piece in voice.speak(text, voice=name, language="English", speed=1.0)])
        audio = soxr.resample(np.frombuffer(pcm, dtype="<i2").astype(np.float32), 24_000, RATE)
        clips.append(Clip(np.clip(audio, -32768, 32767).astype(np.int16), text))
    return clips


def _endless(names: Sequence[str] | dict[str, Any]) -> Iterator[str]:
    while True:
        yield from names


@contextmanager
def ear() -> Iterator[tuple[str, psutil.Process]]:
    """Run the stand-in for vLLM; yield its URL and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "voice_local.containers.stand_in_vllm", "serve", MODEL, "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _healthy(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the stand-in did not start: run it by hand to see why")
            time.sleep(0.1)
        yield f"ws://127.0.0.1:{port}/v1/realtime", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(10)


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@dataclass(frozen=True)
class Heard:
    """What a set of clips gave, and the processor time it took."""

    clips: Sequence[Clip]
    sessions: Sequence[LiveSession]
    cpu_seconds: float

    def describe(self) -> dict[str, Any]:
        first, final = [s.first_delta for s in self.sessions], [s.final for s in self.sessions]
        seconds = sum(session.seconds for session in self.sessions)
        return {
            "words": sum(len(normalized(clip.text).split()) for clip in self.clips),
            "seconds": round(seconds, 1),
            "wer": round(_rate(self.clips, [session.text for session in self.sessions]), 4),
            "first_delta_s": _spread(first),
            "final_s": _spread(final),
            "cores": round(self.cpu_seconds / seconds, 2),
        }


def _rate(clips: Sequence[Clip], texts: Sequence[str]) -> float:
    return word_error_rate(" ".join(clip.text for clip in clips), " ".join(texts))


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {name: round(of(values), 3) for name, of in (("mean", statistics.mean), ("max", max))}


async def hear(url: str, process: psutil.Process, clips: Sequence[Clip], at_once: int) -> Heard:
    """Let sessions hear all clips, `at_once` of them at any moment."""
    turns = asyncio.Semaphore(at_once)

    async def one(clip: Clip) -> LiveSession:
        async with turns:
            return await live_session(url, clip.samples)

    before = sum(process.cpu_times()[:2])
    sessions = await asyncio.gather(*map(one, clips))
    return Heard(clips, sessions, sum(process.cpu_times()[:2]) - before)


def offline(clips: Sequence[Clip]) -> float:
    """Return the word error rate of the same model on whole recordings."""
    engine = WhisperLive.load()
    texts = ["".join(engine.words(clip.samples.astype(np.float32) / np.float32(32768))) for clip in clips]
    return _rate(clips, texts)


async def interrupted(voice: PiperVoice) -> None:
    """Listen to a long sentence and leave while the worker makes its second, longer slice."""
    speech = voice.speak(LONG_SENTENCE, voice="vivian", language="English", speed=1.0)
    await anext(speech)
    while True:
        step = asyncio.ensure_future(anext(speech, None))
        # Pieces of a slice that is made come at once.
        done, _ = await asyncio.wait({step}, timeout=0.02)
        if not done:
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)
            await speech.aclose()
            return
        if step.result() is None:
            raise RuntimeError("the sentence was spoken before anybody could interrupt it")


async def measure_voice(voice: PiperVoice) -> dict[str, Any]:
    """Measure first sound, speed and interruption of the voice."""

    async def speak(text: str) -> tuple[float, float, float]:
        began = time.perf_counter()
        first, size = 0.0, 0
        async for piece in voice.speak(text, voice="vivian", language="English", speed=1.0):
            first, size = first or time.perf_counter() - began, size + len(piece)
        return first, time.perf_counter() - began, size / 48_000

    singles = [await speak(SENTENCE) for _ in range(5)]
    together = await asyncio.gather(*(speak(SENTENCE) for _ in range(AT_ONCE)))
    waits = []
    for _ in range(3):
        await interrupted(voice)
        waits.append((await speak(SENTENCE))[0])
    return {
        "first_sound_s": _spread([first for first, _, _ in singles]),
        "work_per_second_of_speech": round(sum(took for _, took, _ in singles) / sum(long for *_, long in singles), 3),
        "three_at_once": {"first_sound_s": _spread([first for first, _, _ in together])},
        "first_sound_after_an_interruption_s": _spread(waits),
    }


async def benchmark(parts: Sequence[str], passages: int) -> dict[str, Any]:
    """Run the parts asked for; the voice has ended before the ear begins."""
    sets: dict[str, Sequence[Clip]] = {"librivox": recordings()} if "librivox" in parts else {}
    result: dict[str, Any] = {"single": {}, "three_at_once": {}}
    voice = PiperVoice()
    await voice.start()
    try:
        if "voice" in parts:
            result["voice"] = await measure_voice(voice)
        if "made_speech" in parts:
            sets["made_speech"] = await made_speech(voice, passages)
    finally:
        await voice.aclose()
    with ear() as (url, process):
        for name, clips in sets.items():
            result["single"][name] = (await hear(url, process, clips, 1)).describe()
        for name, clips in sets.items():
            result["three_at_once"][name] = (await hear(url, process, clips, AT_ONCE)).describe()
    for name, clips in sets.items():
        single, three = result["single"][name], result["three_at_once"][name]
        single["wer_offline"] = round(offline(clips), 4)
        three["first_delta_ratio"] = round(three["first_delta_s"]["mean"] / single["first_delta_s"]["mean"], 2)
        three["final_ratio"] = round(three["final_s"]["mean"] / single["final_s"]["mean"], 2)
    result["goals"] = goals(result)
    result["machine"] = {"cores": os.cpu_count(), "load_average": [round(value, 2) for value in os.getloadavg()]}
    return result


def goals(result: dict[str, Any]) -> dict[str, bool]:
    """Say which goals are met, each on its worst value."""
    single, three = result["single"].values(), result["three_at_once"].values()
    return {
        f"wer <= {GOAL_WER:.0%}": all(each["wer"] <= GOAL_WER for each in single),
        f"first delta <= {GOAL_FIRST} s": all(each["first_delta_s"]["max"] <= GOAL_FIRST for each in single),
        f"final <= {GOAL_FINAL} s": all(each["final_s"]["max"] <= GOAL_FINAL for each in single),
        f"three at once within {GOAL_RATIO}x of one": all(
            max(each["first_delta_ratio"], each["final_ratio"]) <= GOAL_RATIO for each in three
        ),
    }


def show(result: dict[str, Any]) -> None:
    """Print the figures for people."""
    for mode in ("single", "three_at_once"):
        for name, each in result[mode].items():
            first, final = each["first_delta_s"], each["final_s"]
            more = (
                f"offline {each['wer_offline']:.1%}"
                if mode == "single"
                else f"x{each['first_delta_ratio']} and x{each['final_ratio']} of one"
            )
            print(
                f"{mode.replace('_', ' '):13} {name.replace('_', ' '):11} {each['words']:4} words  "
                f"WER {each['wer']:5.1%}  first delta {first['mean']:.2f} s (max {first['max']:.2f})  "
                f"final {final['mean']:.2f} s (max {final['max']:.2f})  {each['cores']:.2f} cores a session  {more}"
            )
    if "voice" in result:
        voice = result["voice"]
        print(
            f"voice: first sound {voice['first_sound_s']['mean']:.2f} s, "
            f"three at once {voice['three_at_once']['first_sound_s']['max']:.2f} s, "
            f"after an interruption {voice['first_sound_after_an_interruption_s']['max']:.2f} s, "
            f"{voice['work_per_second_of_speech']:.3f} s of work a second of speech"
        )
    for goal, met in result["goals"].items():
        print(f"{'met   ' if met else 'MISSED'} {goal}")
    print(f"machine: {result['machine']}")


def main() -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; default: all")
    parser.add_argument("--passages", type=int, default=11, help="passages of made speech, 1 to 11")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    result = asyncio.run(benchmark(options.parts, options.passages))
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
