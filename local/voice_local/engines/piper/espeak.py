# SPDX-License-Identifier: GPL-3.0-or-later
"""eSpeak NG, which is inside Piper's package as its phonemizer, as a voice for the languages Piper has no voice for.

A formant synthesizer: robotic, and ready in milliseconds. It is under the GPL like Piper, so only the Piper worker
loads it. The calls are those of eSpeak NG's public header `speak_lib.h`.
"""

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path

_OUTPUT_RETRIEVAL = 1
"""Give the audio to the callback; play nothing."""
_BUFFER_MILLISECONDS = 200
_NO_EXIT = 0x8000
"""Return an error where the library would end the process."""
_UTF8 = 1
_BY_CHARACTERS = 1
_RATE_PARAMETER = 1
_WORDS_PER_MINUTE = 160
"""eSpeak's own 175 is fast for a listener who does not know the voice; its limits are 80 and 450."""
_FEWEST_WORDS, _MOST_WORDS = 80, 450

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class EspeakError(RuntimeError):
    """eSpeak NG cannot be loaded or refuses; the message never holds the text."""


class Espeak:
    """The library, loaded once a process: its state is global."""

    def __init__(self) -> None:
        """Load it from Piper's package.

        Raises:
            EspeakError: the package holds no eSpeak NG library, or no data for it.
        """
        found = importlib.util.find_spec("piper")
        if found is None or found.origin is None:
            raise EspeakError("the package piper is missing")
        package = Path(found.origin).parent
        libraries = sorted(package.glob("espeakbridge*.so"))
        if not libraries:
            raise EspeakError(f"{package} holds no eSpeak NG library")
        self._library = ctypes.CDLL(str(libraries[0]))
        try:
            self._library.espeak_Synth.argtypes = [
                ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int,
                ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p,
            ]  # fmt: skip
            rate: int = self._library.espeak_Initialize(
                _OUTPUT_RETRIEVAL, _BUFFER_MILLISECONDS, str(package / "espeak-ng-data").encode(), _NO_EXIT
            )
        except AttributeError as problem:
            raise EspeakError(f"{libraries[0].name} lacks a function of eSpeak NG ({problem})") from problem
        if rate <= 0:
            raise EspeakError(f"eSpeak NG finds no data in {package / 'espeak-ng-data'}")
        self.sample_rate = rate
        """Hz."""
        self._heard: list[bytes] = []
        # Kept as long as the library may call it.
        self._callback = _Callback(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    def pieces(self, text: str, *, voice: str, length_scale: float) -> Iterator[bytes]:
        """Yield PCM16 at `sample_rate`.

        Args:
            text: what to say.
            voice: eSpeak's name of a language, such as `de` or `cmn`.
            length_scale: duration relative to the usual; 2 is half as fast, within eSpeak's own limits.

        Raises:
            EspeakError: there is no such voice, or the text is refused.
        """
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise EspeakError(f"eSpeak NG has no voice {voice}")
        words = round(min(max(_WORDS_PER_MINUTE / length_scale, _FEWEST_WORDS), _MOST_WORDS))
        self._library.espeak_SetParameter(_RATE_PARAMETER, words, 0)
        # A NUL would end the text for the library.
        data = text.replace("\0", " ").encode()
        self._heard.clear()
        if self._library.espeak_Synth(data, len(data) + 1, 0, _BY_CHARACTERS, 0, _UTF8, None, None) != 0:
            raise EspeakError("eSpeak NG refused the text")
        self._library.espeak_Synchronize()
        yield from self._heard
        self._heard.clear()

    def _take(self, samples: "ctypes._Pointer[ctypes.c_short] | None", count: int, events: int | None) -> int:
        del events
        if samples and count > 0:
            self._heard.append(ctypes.string_at(samples, 2 * count))
        return 0
