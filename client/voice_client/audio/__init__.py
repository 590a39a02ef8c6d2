"""Audio in and out: any file to paced PCM16, PCM16 to a WAV file.

`AudioFile` is what a user hands to `Transcriber.transcribe`; `WavFile` writes what a `Synthesizer` speaks.
"""

from voice_client.audio.source import AudioFile, AudioSource, PcmReader
from voice_client.audio.wav import WavFile

__all__ = ["AudioFile", "AudioSource", "PcmReader", "WavFile"]
