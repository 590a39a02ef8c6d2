"""The loudspeaker; needs the extra `mic` (sounddevice and PortAudio), as the microphone does."""

import asyncio
import atexit
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np
import soxr

from voice_client.errors import BadInputError, DeadlineError

_MISSING = "Install it: pip install 'sagemaker-voice[mic]'; on Linux also PortAudio (apt install libportaudio2)"
_BLOCK_SECONDS = 0.02
_REST = -1
"""The part that the resampler's last samples belong to."""
GONE_SECONDS = 5.0
"""A device that has asked for no sound for so long has gone: while it is there it asks every 20 ms, for silence too."""
CLOSE_SECONDS = 2.0
"""Longest wait for the device to close, which plays what it has already: well within a second. PortAudio waits for ever
for one that is stuck."""
_LOOK_EVERY = 0.1
"""Seconds between two looks at the device while sound waits."""


class Loudspeaker:
    """Plays PCM16 as it comes; what waits can be dropped.

    Args:
        rate: samples per second.
        device: name or number of the playback device; None takes the system's default.

    Raises:
        BadInputError: on entering: no sounddevice, no PortAudio, or no device that plays.
    """

    def __init__(self, *, rate: int, device: str | int | None = None) -> None:
        self.rate = rate
        self.device = device
        self.underruns = 0
        """How often sound came too late to be played without a gap."""
        self._held: deque[tuple[bytes, int]] = deque()
        self._lock = threading.Lock()  # PortAudio asks from a thread of its own
        self._playing = False
        self._empty = asyncio.Event()
        self._stream: Any = None
        self._device_rate = rate
        self._resampler: Any = None
        self._tell_empty: Callable[[], None] = lambda: None
        self._asks = 0
        """How often the device asked for sound."""
        self._asked = (0, 0.0)
        """That number when it was seen to grow last, and when that was. A process that was stopped for a while (Ctrl-Z)
        finds that the device asked in between."""
        self._ended = False
        """Whether it said that it asks no more."""

    def __enter__(self) -> Self:
        sounddevice = _sounddevice()
        loop = asyncio.get_running_loop()
        self._empty.set()
        self._tell_empty = lambda: _call(loop, self._empty.set)
        try:
            self._device_rate = self._playable_rate(sounddevice)
            if self._device_rate != self.rate:
                self._resampler = soxr.ResampleStream(self.rate, self._device_rate, 1, dtype="int16")
            self._stream = sounddevice.RawOutputStream(
                samplerate=self._device_rate,
                blocksize=round(self._device_rate * _BLOCK_SECONDS),
                device=self.device,
                channels=1,
                dtype="int16",
                callback=self._fill,
                finished_callback=self._note_end,
            )
            self._asked = (0, time.monotonic())
            self._stream.start()
        except (sounddevice.PortAudioError, ValueError) as error:
            raise BadInputError(
                f"no sound can be played: {error}",
                advice="`python -m sounddevice` lists the devices; choose one with --device, or write a file with -o",
            ) from error
        return self

    def play(self, pcm: bytes, part: int) -> None:
        """Add sound; `part` names what can be dropped together.

        Raises:
            DeadlineError: the device has gone.
        """
        self._check_device()
        self._hold(pcm if self._resampler is None else self._resampled(pcm, last=False), part)

    def _resampled(self, pcm: bytes, *, last: bool) -> bytes:
        samples = self._resampler.resample_chunk(np.frombuffer(pcm, "<i2"), last=last)
        data: bytes = samples.astype("<i2").tobytes()
        return data

    def _hold(self, pcm: bytes, part: int) -> None:
        if not pcm:
            return
        with self._lock:
            self._held.append((pcm, part))
            self._playing = True
        self._empty.clear()

    def drop(self, part: int) -> None:
        """Drop what waits of a part."""
        with self._lock:
            self._held = deque(held for held in self._held if held[1] != part)

    @property
    def held_seconds(self) -> float:
        """How much sound waits."""
        with self._lock:
            return sum(len(pcm) for pcm, _ in self._held) / (2 * self._device_rate)

    async def has_at_most(self, seconds: float) -> None:
        """Return when no more sound waits than this.

        Raises:
            DeadlineError: the device has gone.
        """
        while (too_much := self.held_seconds - seconds) > 0:
            self._check_device()
            await asyncio.sleep(min(too_much, _LOOK_EVERY))

    async def played(self) -> None:
        """Return when all sound was played.

        Raises:
            DeadlineError: the device has gone.
        """
        if self._resampler is not None:
            self._hold(self._resampled(b"", last=True), _REST)
        with self._lock:
            self._playing = False
        while not self._empty.is_set():
            self._check_device()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY):
                    await self._empty.wait()

    def _check_device(self) -> None:
        now, (asks, seen) = time.monotonic(), self._asked
        if self._asks != asks:
            seen = now
            self._asked = (self._asks, now)
        if not self._ended and now - seen < GONE_SECONDS:
            return
        told = "has stopped" if self._ended else f"has taken no sound for {GONE_SECONDS:g} s"
        raise DeadlineError(
            f"the playback device {told}",
            advice="See that it is connected (`python -m sounddevice` lists the devices), or write a file with -o",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sounddevice = _sounddevice()
        end = self._stream.stop if kind is None else self._stream.abort  # `stop` plays what the device has already

        def close() -> None:
            for step in (end, self._stream.close):
                # A device that has gone cannot be closed well; that it has gone was told already.
                with contextlib.suppress(sounddevice.PortAudioError):
                    step()

        closing = threading.Thread(target=close, name="voice: loudspeaker", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():  # PortAudio would wait for the device at the end of the process as well
            atexit.unregister(getattr(sounddevice, "_exit_handler", close))

    def _playable_rate(self, sounddevice: Any) -> int:
        """Return the wanted rate where the device plays it, else the device's own."""
        try:
            sounddevice.check_output_settings(device=self.device, channels=1, dtype="int16", samplerate=self.rate)
        except sounddevice.PortAudioError:
            return int(sounddevice.query_devices(self.device, "output")["default_samplerate"])
        return self.rate

    def _fill(self, out: Any, _frames: int, _time: Any, _status: Any) -> None:  # in PortAudio's thread
        wanted, filled = len(out), 0
        self._asks += 1
        with self._lock:
            while self._held and filled < wanted:
                pcm, part = self._held.popleft()
                taken = pcm[: wanted - filled]
                out[filled : filled + len(taken)] = taken
                filled += len(taken)
                if len(taken) < len(pcm):
                    self._held.appendleft((pcm[len(taken) :], part))
            ran_dry = not self._held
            if filled and filled < wanted and self._playing:
                self.underruns += 1
        out[filled:wanted] = bytes(wanted - filled)
        if ran_dry:
            self._tell_empty()

    def _note_end(self) -> None:  # in PortAudio's thread
        self._ended = True


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function)


def _sounddevice() -> Any:
    try:
        import sounddevice  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise BadInputError("playing needs the Python package sounddevice", advice=_MISSING) from error
    except OSError as error:  # the package is there, the library it stands on is not
        raise BadInputError(f"playing needs PortAudio: {error}", advice=_MISSING) from error
    return sounddevice
