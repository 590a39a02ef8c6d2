"""Options of commands that use both endpoints of a stage: the ear and the voice."""

from pathlib import Path
from typing import Annotated

import typer

from voice_client.cli.options import Where, where
from voice_client.errors import BadInputError

_WHERE = "Where"

SttEndpointOption = Annotated[
    str | None,
    typer.Option("--stt-endpoint", help="Speech-to-text endpoint, instead of the stage's.", rich_help_panel=_WHERE),
]
TtsEndpointOption = Annotated[
    str | None,
    typer.Option("--tts-endpoint", help="Text-to-speech endpoint, instead of the stage's.", rich_help_panel=_WHERE),
]
SttModelOption = Annotated[
    str | None,
    typer.Option(
        "--stt-model", help="Name its server knows the model by. (default: the stage's)", rich_help_panel=_WHERE
    ),
]
TtsModelOption = Annotated[
    str | None,
    typer.Option(
        "--tts-model", help="Name its server knows the model by. (default: the stage's)", rich_help_panel=_WHERE
    ),
]


def both_places(
    *,
    stage: str | None,
    stt_endpoint: str | None,
    tts_endpoint: str | None,
    region: str | None,
    endpoint_url: str | None,
    ca_bundle: Path | None,
    stt_model: str | None,
    tts_model: str | None,
) -> tuple[Where, Where]:
    """Return where the ear and the voice are.

    Raises:
        BadInputError: a stage although both endpoints are named, or a CA bundle that is not there.
    """
    if stage is not None and stt_endpoint is not None and tts_endpoint is not None:
        raise BadInputError("--stage is not needed where both endpoints are named")
    places = [
        where(
            stage=None if endpoint is not None else stage,
            endpoint=endpoint,
            region=region,
            endpoint_url=endpoint_url,
            ca_bundle=ca_bundle,
            model=model,
        )
        for endpoint, model in ((stt_endpoint, stt_model), (tts_endpoint, tts_model))
    ]
    return places[0], places[1]


def places_shown(ear: Where, voice: Where) -> str:
    """Return what to call both before the user."""
    names = [place["endpoint_name"] or f"stage {place['stage'] or 'dev'}" for place in (ear, voice)]
    return " and ".join(dict.fromkeys(names))
