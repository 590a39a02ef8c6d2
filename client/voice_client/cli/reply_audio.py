"""Where the voice of `voice talk` goes: the loudspeaker, or a file."""

from typing import Protocol

from voice_client.audio import WavFile
from voice_client.audio.playback import Loudspeaker
from voice_client.protocol.speech import BYTES_PER_SECOND
from voice_client.session.events import Restarted, SpeechChunk


class VoiceSink(Protocol):
    """Takes the audio of one reply after the other."""

    def play(self, chunk: SpeechChunk) -> None:
        """Take more of a reply."""
        ...

    def restart(self, event: Restarted) -> None:
        """Take back a sentence, which comes again."""
        ...

    def stop(self, played: float) -> None:
        """Fall silent: the reply was interrupted when so many seconds of it had been played."""
        ...

    def finish(self) -> None:
        """Note that the conversation is over."""
        ...


class FileVoice:
    """Writes replies one after the other, each as far as a listener would have heard it."""

    def __init__(self, file: WavFile) -> None:
        self._file = file
        self._reply: list[SpeechChunk] = []

    def play(self, chunk: SpeechChunk) -> None:
        """See `VoiceSink`."""
        if self._reply and self._reply[-1].utterance != chunk.utterance:
            self._write()
        self._reply.append(chunk)

    def restart(self, event: Restarted) -> None:
        """See `VoiceSink`."""
        self._reply = [chunk for chunk in self._reply if chunk.sentence != event.sentence]

    def stop(self, played: float) -> None:
        """See `VoiceSink`."""
        self._write(limit=2 * round(played * BYTES_PER_SECOND / 2))

    def finish(self) -> None:
        """See `VoiceSink`."""
        self._write()

    def _write(self, limit: int | None = None) -> None:
        pcm = b"".join(chunk.pcm for chunk in self._reply)
        self._file.write(pcm[:limit])
        self._reply.clear()


class LoudspeakerVoice:
    """Plays replies; what waits of an interrupted one is dropped."""

    def __init__(self, speaker: Loudspeaker) -> None:
        self._speaker = speaker
        self._parts: dict[tuple[int, int], int] = {}
        """Names for what can be dropped together: sentences of utterances."""

    def play(self, chunk: SpeechChunk) -> None:
        """See `VoiceSink`."""
        part = self._parts.setdefault((chunk.utterance, chunk.sentence), len(self._parts))
        self._speaker.play(chunk.pcm, part)

    def restart(self, event: Restarted) -> None:
        """See `VoiceSink`."""
        if (part := self._parts.get((event.utterance, event.sentence))) is not None:
            self._speaker.drop(part)

    def stop(self, played: float) -> None:
        """See `VoiceSink`."""
        del played
        for part in self._parts.values():
            self._speaker.drop(part)

    def finish(self) -> None:
        """See `VoiceSink`."""
        return
