"""Whisper as a live transcriber: words appear while somebody speaks, and none is ever taken back.

Whisper transcribes whole recordings. To make it live, the stream is cut into segments of speech by voice activity, the
open segment is transcribed again and again as it grows, and a word is given out once two runs in a row agree on it
(LocalAgreement-2: Liu et al. 2020; Machacek et al. 2023). A closed segment is transcribed once more, whole, and what it
adds to the words already given out is given out too.
"""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

# Before faster_whisper is imported: it would look its models up on a hub, and nothing here may use the network.
os.environ["HF_HUB_OFFLINE"] = "1"

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.tokenizer import Tokenizer
from numpy.typing import NDArray

from voice_local.engines.interfaces import STT_SAMPLE_RATE, EngineUnavailableError, Samples
from voice_local.engines.voice_activity import WINDOW_SAMPLES, SileroSession, VoiceActivity, load_silero
from voice_local.engines.whisper_weights import WHISPER_BASE, PackagedWhisper, whisper_weights
from voice_local.engines.word_alignment import agreed_prefix, split_words, words_after

type Audio = NDArray[np.float32]

_MEL_FRAMES_PER_SECOND = 100
_MOST_TOKENS_PER_SECOND = 8
"""Fast speech has about half as many; a run that goes on beyond is Whisper repeating itself."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """When to listen, when to run the model, when to close a segment. Seconds of audio, unless said."""

    cpu_threads: int = 1
    """Cores for one run. A second makes runs no quicker (CTranslate2 4.8, base, int8: 0.30 s with one, 0.34 s with two
    for 10 s of audio) and costs twice the work: a decoder's steps are too short to be shared out."""
    runs_at_once: int = 2
    """Runs of different transcriptions side by side, each on `cpu_threads` cores of its own."""
    step: float = 0.5
    """New speech between two runs on an open segment; a run takes 0.1 s to 0.25 s of one core."""
    first_step: float = 0.2
    """The same until a segment's first word is out: somebody waits for it."""
    first_run: float = 0.8
    """Shortest segment to run the model on, with its lead-in: shorter ones make Whisper guess."""
    lead_in: float = 0.5
    """Audio kept from before the voice was noticed, so that soft first consonants are not cut off."""
    speech_starts: float = 0.4
    """Probability of speech that opens a segment."""
    speech_goes_on: float = 0.3
    """Probability under which a window counts as silence."""
    pause: float = 0.5
    """Silence that closes a segment."""
    long_segment: float = 6.0
    """From here on a breath is enough to close a segment, so that runs stay short."""
    breath: float = 0.1
    """Silence after which an open segment is run on at once: when it goes on, that run was the last one needed."""
    longest_segment: float = 18.0
    """A segment is closed here even in mid-word."""
    beam_size: int = 3
    """Hears the first second of a segment far better than 1; more costs time and gains nothing measurable."""
    mel_window: float = 6.0
    """Shortest window given to Whisper. It is trained on 30 s; a fifth of that costs a fifth and changes little."""
    short_speech: float = 2.0
    short_speech_window: float = 9.0
    """The same for a closed segment of up to `short_speech`: a word or two in 6 s is often said twice (17 of 60 answers
    of one word, none in 9 s; base). Runs on open segments stay quick: nothing is given out on the word of one alone."""
    mel_padding: float = 3.0
    """Silence after the speech in that window; with much less, Whisper says the sentence twice."""
    words_held_back: int = 1
    """The last words of a run are cut off by the end of the audio: never given out from an open segment."""
    shortest_speech: float = 0.2
    """A remainder at the end that is shorter holds no word."""
    silence_no_speech: float = 0.45
    silence_log_probability: float = -1.0
    """Whisper's own rule (openai/whisper transcribe.py): a text this unlikely, in audio this silent, is invented. Its
    0.6 lets through most of what base hears in a hum or a tone, at 0.43 to 0.6; its single words lie at 0.32 at most,
    those of tiny.en at 0.44."""


class WhisperLive:
    """Whisper, loaded and warm; serves any number of transcriptions, one run of the model at a time."""

    def __init__(
        self, model: WhisperModel, activity_model: SileroSession, language: str, settings: LiveSettings
    ) -> None:
        self._model = model
        self._activity_model = activity_model
        self._tokenizer = Tokenizer(
            model.hf_tokenizer, model.model.is_multilingual, task="transcribe", language=language
        )
        self._settings = settings
        self._slots = threading.BoundedSemaphore(settings.runs_at_once)

    @classmethod
    def load(
        cls,
        model: Path | PackagedWhisper = WHISPER_BASE,
        *,
        language: str = "en",
        settings: LiveSettings | None = None,
    ) -> Self:
        """Load the weights and run the model once (about 1.5 s).

        Args:
            model: which one; the folder of a CTranslate2 Whisper model of one's own.
            language: code of the language that will be spoken, such as `en`.
            settings: when to run the model; None for the defaults.

        Raises:
            EngineUnavailableError: the weights are missing or damaged, or the model does not know the language.
        """
        settings = settings or LiveSettings()
        weights = whisper_weights(model)
        try:
            whisper = WhisperModel(
                weights.name,
                device="cpu",
                compute_type="int8",
                cpu_threads=settings.cpu_threads,
                num_workers=settings.runs_at_once,
                local_files_only=True,
                files=weights.files,
            )
            _check_language(whisper, language)
            engine = cls(whisper, load_silero(), language, settings)
        except (RuntimeError, ValueError, OSError) as problem:
            raise EngineUnavailableError(f"Whisper cannot be loaded from {weights.name}: {problem}") from problem
        engine.words(np.zeros(STT_SAMPLE_RATE, dtype=np.float32))
        return engine

    def begin(self) -> "LiveTranscription":
        """Start an utterance."""
        return LiveTranscription(self, VoiceActivity(self._activity_model), self._settings)

    def words_unless_busy(self, audio: Audio) -> list[str] | None:
        """Transcribe as `words` does, or return None at once when as many runs are going on as may."""
        if not self._slots.acquire(blocking=False):
            return None
        try:
            return self._run(audio)
        finally:
            self._slots.release()

    def words(self, audio: Audio, window: float | None = None) -> list[str]:
        """Transcribe up to 30 s of 16 kHz audio; blocks for 0.1 s to 0.3 s, longer when others are at it.

        Args:
            audio: what to transcribe.
            window: shortest window in seconds that is given to Whisper; None for that of the settings.

        Returns:
            The words, each with what separates it from the one before (`split_words`).
        """
        with self._slots:
            return self._run(audio, window)

    def _run(self, audio: Audio, window_seconds: float | None = None) -> list[str]:
        features = self._model.feature_extractor(audio)
        padded = features.shape[1] + int(self._settings.mel_padding * _MEL_FRAMES_PER_SECOND)
        wanted = max(int((window_seconds or self._settings.mel_window) * _MEL_FRAMES_PER_SECOND), padded)
        frames = min(wanted + wanted % 2, 30 * _MEL_FRAMES_PER_SECOND)
        window = np.zeros((1, features.shape[0], frames), dtype=np.float32)
        heard = min(frames, features.shape[1])
        window[0, :, :heard] = features[:, :heard]
        prompt = [*self._tokenizer.sot_sequence, self._tokenizer.no_timestamps]
        (result,) = self._model.model.generate(
            ctranslate2.StorageView.from_array(window),
            [prompt],
            beam_size=self._settings.beam_size,
            max_length=len(prompt) + int(10 + len(audio) / STT_SAMPLE_RATE * _MOST_TOKENS_PER_SECOND),
            no_repeat_ngram_size=5,
            return_scores=True,
            return_no_speech_prob=True,
        )
        invented = (
            result.no_speech_prob > self._settings.silence_no_speech
            and result.scores[0] < self._settings.silence_log_probability
        )
        return [] if invented else split_words(str(self._tokenizer.decode(result.sequences_ids[0])))


def _check_language(whisper: WhisperModel, language: str) -> None:
    """Raise `ValueError` for a language that a model of English alone would take for English."""
    if not whisper.model.is_multilingual and language != "en":
        raise ValueError(f"it knows no language but English, not {language!r}")


@dataclass(slots=True)
class _Segment:
    """A stretch of speech that has not ended yet."""

    pieces: list[Audio]
    samples: int
    silence: int = 0
    """Samples of silence at its end."""
    since_run: int = 0
    """Samples since the model last ran on it."""
    speech_since_run: int = 0
    last_run: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    """Words of it that were given out."""

    def audio(self) -> Audio:
        return np.concatenate(self.pieces)


class LiveTranscription:
    """One utterance: any amount of speech and silence."""

    def __init__(self, engine: WhisperLive, activity: VoiceActivity, settings: LiveSettings) -> None:
        self._engine = engine
        self._activity = activity
        self._settings = settings
        self._rest: Audio = np.zeros(0, dtype=np.float32)
        self._lead_in: Audio = np.zeros(0, dtype=np.float32)
        self._open: _Segment | None = None
        self._closed: list[_Segment] = []
        self._anything_given = False

    def feed(self, samples: Samples, *, more_to_come: bool = True) -> str:
        """Take audio; run the model at most once on the open segment, so that a backlog makes runs rarer, not later."""
        self._listen(samples.astype(np.float32) / np.float32(32768))
        new = self._take_closed()
        if more_to_come and self._open is not None and self._due(self._open):
            new += self._run_on(self._open)
        return self._as_text(new)

    def finish(self) -> str:
        """Close what is open and give the rest."""
        if self._open is not None:
            self._open.pieces.append(self._rest)
            self._open.samples += len(self._rest)
            self._closed.append(self._open)
            self._open = None
        return self._as_text(self._take_closed())

    def _listen(self, audio: Audio) -> None:
        audio = np.concatenate([self._rest, audio])
        whole = len(audio) // WINDOW_SAMPLES * WINDOW_SAMPLES
        for start in range(0, whole, WINDOW_SAMPLES):
            window = audio[start : start + WINDOW_SAMPLES]
            self._hear(window, self._activity.probability(window))
        self._rest = audio[whole:]

    def _hear(self, window: Audio, speech: float) -> None:
        settings = self._settings
        if self._open is None:
            lead_in = int(settings.lead_in * STT_SAMPLE_RATE)
            self._lead_in = np.concatenate([self._lead_in, window])[-lead_in:]
            if speech > settings.speech_starts:
                size = len(self._lead_in)
                self._open = _Segment([self._lead_in], size, since_run=size, speech_since_run=len(window))
            return
        segment = self._open
        segment.pieces.append(window)
        segment.samples += len(window)
        segment.since_run += len(window)
        if speech > settings.speech_goes_on:
            segment.silence = 0
            segment.speech_since_run += len(window)
        else:
            segment.silence += len(window)
        if self._ends(segment):
            self._closed.append(segment)
            self._open = None
            self._lead_in = np.zeros(0, dtype=np.float32)

    def _ends(self, segment: _Segment) -> bool:
        settings = self._settings
        silence, length = segment.silence / STT_SAMPLE_RATE, segment.samples / STT_SAMPLE_RATE
        return (
            silence >= settings.pause
            or (length > settings.long_segment and silence >= settings.breath)
            or length > settings.longest_segment
        )

    def _due(self, segment: _Segment) -> bool:
        settings = self._settings
        step = settings.step if segment.given else settings.first_step
        return (
            segment.speech_since_run > 0
            and segment.samples >= settings.first_run * STT_SAMPLE_RATE
            and (segment.since_run >= step * STT_SAMPLE_RATE or segment.silence >= settings.breath * STT_SAMPLE_RATE)
        )

    def _run_on(self, segment: _Segment) -> list[str]:
        # Whoever has heard nothing yet waits for the model; further words can wait for a turn that is free.
        run = self._engine.words_unless_busy if segment.given else self._engine.words
        words = run(segment.audio())
        if words is None:
            return []
        segment.since_run = segment.speech_since_run = 0
        agreed = agreed_prefix(segment.last_run, words)[: max(0, len(words) - self._settings.words_held_back)]
        segment.last_run = words
        new = words_after(segment.given, agreed) if len(agreed) > len(segment.given) else []
        segment.given += new
        return new

    def _take_closed(self) -> list[str]:
        new: list[str] = []
        for segment in self._closed:
            if segment.samples >= self._settings.shortest_speech * STT_SAMPLE_RATE:
                new += words_after(segment.given, self._last_words(segment))
        self._closed.clear()
        return new

    def _last_words(self, segment: _Segment) -> list[str]:
        settings = self._settings
        if segment.samples <= settings.short_speech * STT_SAMPLE_RATE:
            return self._engine.words(segment.audio(), settings.short_speech_window)
        # A run that has already heard all the speech need not be repeated.
        return self._engine.words(segment.audio()) if segment.speech_since_run else segment.last_run

    def _as_text(self, words: list[str]) -> str:
        text = "".join(words)
        if self._anything_given:
            return text
        self._anything_given = bool(words)
        return text.lstrip()
