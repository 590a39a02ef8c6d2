"""`voice speak`: a text in, a WAV file out."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voice_client.cli import options
from voice_client.cli.failure import run, say
from voice_client.cli.live_text import LiveText
from voice_client.errors import BadInputError
from voice_client.protocol.speech import BYTES_PER_SECOND, SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from voice_client.session import SpeakingMetrics

DEFAULT_FILE = Path("speech.wav")


@dataclasses.dataclass(frozen=True, slots=True)
class _Spoken:
    voice: str | None
    language: str | None
    metrics: "SpeakingMetrics"


def speak(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.wav", help="File to write.")] = DEFAULT_FILE,
    voice: Annotated[
        str | None, typer.Option("--voice", help="Voice of the model, such as Vivian, Ryan, Serena.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="Name or code, such as English or en. (default: found out)")
    ] = None,
    stage: options.StageOption = None,
    endpoint: options.EndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    model: options.ModelOption = None,
    as_json: options.JsonOption = False,
    no_retry: options.NoRetryOption = False,
    _debug: options.DebugOption = False,
) -> None:
    """Turn text into speech: a WAV file, 24 kHz mono PCM16, written whole or not at all.

    The file's name goes to standard output; the measures go to standard error.

    Examples:

        voice speak "Good morning."

        voice speak "Bom dia." -o bom-dia.wav --voice Serena --language pt

        voice speak "How are you today?" --stage prod --json
    """

    async def say_it() -> _Spoken:
        place = options.where(
            stage=stage, endpoint=endpoint, region=region, endpoint_url=endpoint_url, ca_bundle=ca_bundle, model=model
        )
        if output.suffix.lower() not in {".wav", ".wave"}:
            raise BadInputError(f"{output} is written as WAV", advice="Give it a name that ends in .wav")
        if not text.strip():
            raise BadInputError("there is no text to speak")
        return await _speak(text, output, place, voice=voice, language=language, retry=not no_retry)

    spoken = run(say_it())
    if as_json:
        metrics = {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in dataclasses.asdict(spoken.metrics).items()
        }
        result = {"file": str(output), "voice": spoken.voice, "language": spoken.language, "metrics": metrics}
        print(json.dumps(result, ensure_ascii=False))  # noqa: T201
    else:
        print(output)  # noqa: T201
        say(_measures(spoken.metrics))


async def _speak(
    text: str, output: Path, place: options.Where, *, voice: str | None, language: str | None, retry: bool
) -> _Spoken:
    # Sessions take most of a second to load, which `--help` shall not.
    from voice_client.audio import WavFile  # noqa: PLC0415
    from voice_client.session import Restarted, Retry, Synthesizer  # noqa: PLC0415

    connecting = Synthesizer.connect(**place, voice=voice, language=language, retry=Retry() if retry else None)
    with LiveText() as live, WavFile(output, rate=SAMPLE_RATE_HZ) as wav:
        async with connecting as synthesizer:
            speech = synthesizer.speak(text)
            written = notices = sentence = 0
            held = bytearray()  # of the newest sentence, which may have to be spoken again
            async for event in speech:
                if isinstance(event, Restarted):
                    held.clear()
                    continue
                if event.sentence != sentence:
                    wav.write(bytes(held))
                    written += len(held)
                    held.clear()
                    sentence = event.sentence
                held += event.pcm
                seconds = (written + len(held)) / BYTES_PER_SECOND
                live.show(f"{seconds:.1f} s, sentence {sentence + 1}/{len(speech.sentences)}")
                for notice in speech.notices[notices:]:
                    say(notice.message)
                notices = len(speech.notices)
            wav.write(bytes(held))
            return _Spoken(synthesizer.voice, synthesizer.language, speech.metrics)


def _measures(metrics: "SpeakingMetrics") -> str:
    first = f"first sound after {metrics.ttfa_ms:.0f} ms, " if metrics.ttfa_ms is not None else "silence only, "
    again = f", {metrics.retries} reconnects" if metrics.retries else ""
    return (
        f"{metrics.seconds:.1f} s of speech in {metrics.chunks} chunks ({metrics.bytes} bytes), {first}"
        f"real-time factor {metrics.rtf:.2f}{again}"
    )
