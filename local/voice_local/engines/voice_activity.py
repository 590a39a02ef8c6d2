"""Voice activity from the Silero model inside the faster-whisper wheel, over a stream of 32 ms windows."""

from typing import Protocol

import numpy as np
from faster_whisper.vad import get_vad_model
from numpy.typing import NDArray

WINDOW_SAMPLES = 512
"""Samples of 16 kHz audio the model looks at in one call (32 ms)."""

_CONTEXT_SAMPLES = 64
_STATE_SHAPE = (1, 1, 128)


class SileroSession(Protocol):
    """The part of an ONNX session that is used here; one serves any number of streams."""

    def run(self, output_names: None, inputs: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        """Return the probabilities and the new state."""
        ...


def load_silero() -> SileroSession:
    """Load the model as faster-whisper does, on one thread: a window takes well under a millisecond."""
    session: SileroSession = get_vad_model().session
    return session


class VoiceActivity:
    """The model's memory of one stream."""

    def __init__(self, model: SileroSession) -> None:
        self._model = model
        self._hidden: NDArray[np.float32] = np.zeros(_STATE_SHAPE, dtype=np.float32)
        self._cell: NDArray[np.float32] = np.zeros(_STATE_SHAPE, dtype=np.float32)
        self._context: NDArray[np.float32] = np.zeros(_CONTEXT_SAMPLES, dtype=np.float32)

    def probability(self, window: NDArray[np.float32]) -> float:
        """Return how likely the next 512 samples (16 kHz, -1 to 1) hold speech, 0 to 1."""
        heard = np.concatenate([self._context, window])[np.newaxis]
        output, self._hidden, self._cell = self._model.run(None, {"input": heard, "h": self._hidden, "c": self._cell})
        self._context = window[-_CONTEXT_SAMPLES:]
        return float(output.reshape(-1)[0])
