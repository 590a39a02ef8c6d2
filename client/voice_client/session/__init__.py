"""Conversations with a voice endpoint: `Transcriber` hears, `Synthesizer` speaks."""

from voice_client.session.events import Final, Notice, Partial, SessionStarted, SpeechChunk, TranscriptEvent
from voice_client.session.metrics import HearingMetrics, SpeakingMetrics
from voice_client.session.settings import Retry, SynthesizerSettings, TranscriberSettings, Turns
from voice_client.session.synthesizer import Speech, Synthesizer
from voice_client.session.transcriber import Transcriber, TranscriptionInterruptedError

__all__ = [
    "Final",
    "HearingMetrics",
    "Notice",
    "Partial",
    "Retry",
    "SessionStarted",
    "SpeakingMetrics",
    "Speech",
    "SpeechChunk",
    "Synthesizer",
    "SynthesizerSettings",
    "Transcriber",
    "TranscriberSettings",
    "TranscriptEvent",
    "TranscriptionInterruptedError",
    "Turns",
]
