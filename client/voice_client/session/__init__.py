"""Conversations with a voice endpoint: `Transcriber` hears, `Synthesizer` speaks."""

from voice_client.session.events import (
    Final,
    Notice,
    Partial,
    Restarted,
    SessionStarted,
    SpeechChunk,
    SpeechEvent,
    TranscriptEvent,
)
from voice_client.session.metrics import HearingMetrics
from voice_client.session.settings import Retry, SynthesizerSettings, TranscriberSettings, Turns
from voice_client.session.speaking_metrics import SentenceMetrics, SpeakingMetrics
from voice_client.session.speech import SpeakingInterruptedError, Speech
from voice_client.session.synthesizer import Synthesizer
from voice_client.session.transcriber import Transcriber, TranscriptionInterruptedError

__all__ = [
    "Final",
    "HearingMetrics",
    "Notice",
    "Partial",
    "Restarted",
    "Retry",
    "SentenceMetrics",
    "SessionStarted",
    "SpeakingInterruptedError",
    "SpeakingMetrics",
    "Speech",
    "SpeechChunk",
    "SpeechEvent",
    "Synthesizer",
    "SynthesizerSettings",
    "Transcriber",
    "TranscriberSettings",
    "TranscriptEvent",
    "TranscriptionInterruptedError",
    "Turns",
]
