"""`voice transcribe`: an audio file in, its text out."""

import dataclasses
import json
import sys
from typing import Annotated

import typer

from voice_client.audio import AudioFile
from voice_client.cli import options
from voice_client.cli.failure import run, say
from voice_client.cli.live_text import LiveText
from voice_client.session import (
    Final,
    HearingMetrics,
    Notice,
    Partial,
    Retry,
    Transcriber,
    TranscriberSettings,
    TranscriptionInterruptedError,
)


def transcribe(
    audio: Annotated[str, typer.Argument(metavar="AUDIO", help="File with sound in it; - is standard input.")],
    *,
    stage: options.StageOption = None,
    endpoint: options.EndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    model: options.ModelOption = None,
    as_json: options.JsonOption = False,
    no_pace: Annotated[
        bool, typer.Option("--no-pace", help="Send as fast as the endpoint takes it, not in real time.")
    ] = False,
    no_retry: options.NoRetryOption = False,
    _debug: options.DebugOption = False,
) -> None:
    """Turn speech into text, live.

    The text goes to standard output; what is heard meanwhile and the measures go to standard error.

    Examples:

        voice transcribe call.m4a

        voice transcribe interview.wav --stage prod --json > interview.json

        ffmpeg -i talk.mkv -f wav - | voice transcribe -
    """

    async def hear() -> Final:
        place = options.where(
            stage=stage, endpoint=endpoint, region=region, endpoint_url=endpoint_url, ca_bundle=ca_bundle, model=model
        )
        source = AudioFile(audio)
        source.check()
        return await _hear(source, place, paced=not no_pace, retry=not no_retry)

    final = run(hear())
    if as_json:
        usage = dataclasses.asdict(final.usage) if final.usage is not None else None
        result = {"text": final.text, "usage": usage, "metrics": _rounded(final.metrics)}
        print(json.dumps(result, ensure_ascii=False))  # noqa: T201
    else:
        print(final.text.strip())  # noqa: T201
        say(_measures(final.metrics))


async def _hear(source: AudioFile, place: options.Where, *, paced: bool, retry: bool) -> Final:
    settings = TranscriberSettings(paced=paced)
    final: Final | None = None
    with LiveText() as live:
        async with Transcriber.connect(**place, retry=Retry() if retry else None, settings=settings) as ear:
            try:
                async for event in ear.transcribe(source):
                    match event:
                        case Partial(text=text):
                            live.show(text)
                        case Notice(message=message):
                            say(message)
                        case Final():
                            final = event
            except TranscriptionInterruptedError as error:
                if error.text_so_far and sys.stderr.isatty():
                    say(f"heard until then: {error.text_so_far}")
                raise
    assert final is not None, "transcribe() ended without a Final and without an error"  # noqa: S101
    return final


def _rounded(metrics: HearingMetrics) -> dict[str, float | int | None]:
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in dataclasses.asdict(metrics).items()
    }


def _measures(metrics: HearingMetrics) -> str:
    partial = f"first words after {metrics.first_partial_ms:.0f} ms, " if metrics.first_partial_ms is not None else ""
    again = f", {metrics.retries} reconnects" if metrics.retries else ""
    return (
        f"{metrics.audio_seconds:.1f} s of audio, {partial}final text {metrics.finalization_ms:.0f} ms after its end, "
        f"real-time factor {metrics.rtf:.2f}{again}"
    )
