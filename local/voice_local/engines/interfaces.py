"""What a stand-in server asks of an engine, and how an engine says no."""

from collections.abc import AsyncGenerator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

STT_SAMPLE_RATE = 16_000
"""Hz, mono: what vLLM's `/v1/realtime` takes."""

TTS_SAMPLE_RATE = 24_000
"""Hz, mono: what vLLM-Omni's streamed PCM has."""

type Samples = NDArray[np.int16]
"""PCM16 samples, mono, one dimension."""


class EngineError(Exception):
    """An engine could not do its work."""


class EngineUnavailableError(EngineError):
    """An engine cannot start on this machine: a package or its weights are missing, or they are damaged."""


class UnsupportedSpeechError(EngineError):
    """The engine cannot speak this text in this language."""


class Transcription(Protocol):
    """One utterance being transcribed. Calls block and come from one thread at a time."""

    def feed(self, samples: Samples, *, more_to_come: bool = True) -> str:
        """Take 16 kHz audio of any length; return the text that became certain by it, often empty.

        Args:
            samples: the next audio.
            more_to_come: False when `finish` follows at once, so that no work is done twice.
        """
        ...

    def finish(self) -> str:
        """Say that the audio is over; return the rest of the text. Text given before is never taken back."""
        ...


class Transcriber(Protocol):
    """A speech-to-text engine, loaded and warm. `begin` is called from any thread."""

    def begin(self) -> Transcription:
        """Start an utterance."""
        ...


class Voice(Protocol):
    """A text-to-speech engine; its coroutines belong to one event loop."""

    async def start(self) -> None:
        """Load the engine and speak once unheard, so that the first listener does not wait for it.

        Raises:
            EngineUnavailableError: a package or its weights are missing.
        """
        ...

    def speak(self, text: str, *, voice: str, language: str, speed: float) -> AsyncGenerator[bytes]:
        """Speak `text`: pieces of PCM16 at 24 kHz, as soon as each is there.

        Args:
            text: anything; text without a word may yield nothing.
            voice: one of the nine voice names of Qwen3-TTS, lower case.
            language: a language's English name, or `Auto`.
            speed: 0.25 (slow) to 4 (fast).

        Raises:
            UnsupportedSpeechError: the engine does not speak that language.
            EngineError: the engine failed.
        """
        ...

    async def aclose(self) -> None:
        """Let go of processes and memory."""
        ...
