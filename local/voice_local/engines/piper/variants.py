"""Nine voice names, one Piper voice: what each name changes.

Qwen3-TTS has nine voices of its own. The local cloud has one, so a name selects a pitch and a rate, far enough apart to
be told apart by ear, and nothing else: no name sounds like the real voice of that name.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class VoiceVariant:
    """A variant of the one voice."""

    pitch: float
    """Factor on the fundamental and the formants: 1.06 is about a semitone up."""
    rate: float
    """Factor on the speaking rate: 1.1 is a tenth faster."""


VARIANTS = {
    "vivian": VoiceVariant(pitch=1.00, rate=1.00),
    "serena": VoiceVariant(pitch=1.08, rate=0.95),
    "uncle_fu": VoiceVariant(pitch=0.86, rate=0.92),
    "dylan": VoiceVariant(pitch=0.95, rate=1.08),
    "eric": VoiceVariant(pitch=0.91, rate=1.00),
    "ryan": VoiceVariant(pitch=1.00, rate=1.12),
    "aiden": VoiceVariant(pitch=1.04, rate=1.04),
    "ono_anna": VoiceVariant(pitch=1.16, rate=1.00),
    "sohee": VoiceVariant(pitch=1.12, rate=0.92),
}
"""Keyed by the voice's name in lower case."""

_LENGTH_SCALES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5, 3.0)
_LENGTHS = (0.575, 0.625, 0.66, 0.753, 0.876, 0.957, 1.0, 1.033, 1.089, 1.17, 1.36, 2.8)
"""What comes out relative to a scale of 1: Piper rounds each sound up to whole frames. Mean over three texts."""


def length_scale(length: float) -> float:
    """Return Piper's `length_scale` that makes speech `length` times as long; its shortest is 0.58 times."""
    return float(np.interp(length, _LENGTHS, _LENGTH_SCALES))
