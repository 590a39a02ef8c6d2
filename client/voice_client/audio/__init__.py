"""Audio in and out: any file to paced PCM16, PCM16 to a WAV file.

`AudioFile` or `Microphone` is what a user hands to `Transcriber.transcribe`; `WavFile` writes what a `Synthesizer`
speaks.
"""

from voice_client.audio.microphone import Microphone
from voice_client.audio.raw import RawFormat
from voice_client.audio.source import AudioFile, AudioSource, PcmReader
from voice_client.audio.wav import WavFile

__all__ = ["AudioFile", "AudioSource", "Microphone", "PcmReader", "RawFormat", "WavFile"]
