"""Voice activity from the Silero model inside the faster-whisper wheel, over a stream of 32 ms windows."""

from pathlib import Path

import faster_whisper
import numpy as np
import onnxruntime
from numpy.typing import NDArray

WINDOW_SAMPLES = 512
"""Samples of 16 kHz audio the model looks at in one call (32 ms)."""

_CONTEXT_SAMPLES = 64
_STATE_SHAPE = (1, 1, 128)


def load_silero() -> onnxruntime.InferenceSession:
    """Load the model on one thread: a window takes well under a millisecond."""
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 1
    options.intra_op_num_threads = 1
    path = Path(faster_whisper.__file__).parent / "assets" / "silero_vad_v6.onnx"
    return onnxruntime.InferenceSession(str(path), sess_options=options, providers=["CPUExecutionProvider"])


class VoiceActivity:
    """The model's memory of one stream."""

    def __init__(self, model: onnxruntime.InferenceSession) -> None:
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
