"""The microphone as a source of audio; needs the extra `mic` (sounddevice and PortAudio)."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

import numpy as np
import soxr

from voice_client.audio.pcm import to_pcm16
from voice_client.audio.source import PcmReader
from voice_client.errors import BadInputError

_BLOCK_SECONDS = 0.02
_MISSING = "Install it: pip install 'sagemaker-voice[mic]'; on Linux also PortAudio (apt install libportaudio2)"


class Microphone:
    """Sound as it is recorded, until `stop`.

    Args:
        device: name or number of the recording device; None takes the system's default.
    """

    live = True

    def __init__(self, device: str | int | None = None) -> None:
        self.device = device
        self.overflows = 0
        """How often the system lost sound because it was not fetched in time."""
        self._stop: Callable[[], None] | None = None
        self._stopped = False

    def check(self) -> None:
        """See that there is a device that records, before anything is connected.

        Raises:
            BadInputError: no sounddevice, no PortAudio, or no such device.
        """
        sounddevice = _sounddevice()
        try:
            sounddevice.query_devices(self.device, "input")
        except (sounddevice.PortAudioError, ValueError) as error:
            raise _unusable(error) from error

    def stop(self) -> None:
        """End the recording; what was recorded until now is still heard. From the event loop's thread."""
        self._stopped = True
        if self._stop is not None:
            self._stop()

    def open(self, *, rate: int, chunk_bytes: int) -> AbstractAsyncContextManager[PcmReader]:
        """See `AudioSource.open`.

        Raises:
            BadInputError: no sounddevice, no PortAudio, or no device that records.
        """
        return self._recording(rate, chunk_bytes)

    @asynccontextmanager
    async def _recording(self, rate: int, chunk_bytes: int) -> AsyncGenerator[PcmReader]:
        sounddevice = _sounddevice()
        loop = asyncio.get_running_loop()
        blocks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._stop = lambda: blocks.put_nowait(None)
        if self._stopped:
            self._stop()

        def record(data: Any, _frames: int, _time: Any, status: Any) -> None:  # in PortAudio's thread
            self.overflows += bool(status.input_overflow)
            loop.call_soon_threadsafe(blocks.put_nowait, bytes(data))

        try:
            native = self._rate(sounddevice, rate)
            stream = sounddevice.RawInputStream(
                samplerate=native,
                blocksize=round(native * _BLOCK_SECONDS),
                device=self.device,
                channels=1,
                dtype="int16",
                callback=record,
            )
            with stream:
                yield _Recorded(blocks, native, rate, chunk_bytes)
        except (sounddevice.PortAudioError, ValueError) as error:
            raise _unusable(error) from error
        finally:
            self._stop = None

    def _rate(self, sounddevice: Any, wanted: int) -> int:
        """Return the wanted rate where the device can record at it, else the device's own."""
        try:
            sounddevice.check_input_settings(device=self.device, channels=1, dtype="int16", samplerate=wanted)
        except sounddevice.PortAudioError:
            return int(sounddevice.query_devices(self.device, "input")["default_samplerate"])
        return wanted


class _Recorded:
    """Blocks of a device as chunks of the wanted rate and length."""

    def __init__(self, blocks: "asyncio.Queue[bytes | None]", native: int, rate: int, chunk_bytes: int) -> None:
        self._blocks = blocks
        self._resampler = soxr.ResampleStream(native, rate, 1, dtype="float32") if native != rate else None
        self._chunk_bytes = chunk_bytes
        self._held = bytearray()
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while len(self._held) < self._chunk_bytes and not self._ended:
            block = await self._blocks.get()
            self._ended = block is None
            self._held += self._resampled(block or b"", last=self._ended)
        chunk = bytes(self._held[: self._chunk_bytes])
        del self._held[: self._chunk_bytes]
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def _resampled(self, block: bytes, *, last: bool) -> bytes:
        if self._resampler is None:
            return block
        samples = np.frombuffer(block, dtype="<i2").astype(np.float32) / np.float32(32768.0)
        return to_pcm16(self._resampler.resample_chunk(samples, last=last))


def _unusable(error: Exception) -> BadInputError:
    return BadInputError(
        f"the microphone cannot be used: {error}",
        advice="`python -m sounddevice` lists the devices; choose one with --device",
    )


def _sounddevice() -> Any:
    try:
        import sounddevice  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise BadInputError("recording needs the Python package sounddevice", advice=_MISSING) from error
    except OSError as error:  # the package is there, the library it stands on is not
        raise BadInputError(f"recording needs PortAudio: {error}", advice=_MISSING) from error
    return sounddevice
