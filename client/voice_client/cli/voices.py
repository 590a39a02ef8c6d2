"""`voice voices`: which voices and languages there are."""

import json
from typing import Annotated

import typer

from voice_client.cli import options
from voice_client.cli.failure import run


def voices(
    *,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the deployed model instead of naming those of Qwen3-TTS CustomVoice.")
    ] = False,
    as_json: options.JsonOption = False,
    stage: options.StageOption = None,
    endpoint: options.EndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    model: options.ModelOption = None,
    _debug: options.DebugOption = False,
) -> None:
    """List voices, one a line, then the languages.

    Without an endpoint these are the voices of Qwen3-TTS CustomVoice. With --ask, --stage or --endpoint the model that
    is deployed there is asked for its own.

    Examples:

        voice voices

        voice voices --stage prod

        voice voices --ask --json
    """

    # Sessions take most of a second to load, which `--help` shall not.
    from voice_client.session.voices import DEFAULT_VOICE, LANGUAGES, VOICES  # noqa: PLC0415

    async def asked() -> tuple[str, ...]:
        from voice_client.session import Synthesizer  # noqa: PLC0415

        place = options.where(
            stage=stage, endpoint=endpoint, region=region, endpoint_url=endpoint_url, ca_bundle=ca_bundle, model=model
        )
        if not (ask or stage or endpoint):
            return VOICES
        async with Synthesizer.connect(**place) as synthesizer:
            return await synthesizer.voices()

    names = run(asked())
    if as_json:
        print(json.dumps({"voices": names, "languages": LANGUAGES}, ensure_ascii=False))  # noqa: T201
        return
    for name in names:
        print(f"{name} (default)" if name == DEFAULT_VOICE else name)  # noqa: T201
    print("languages: " + ", ".join(f"{name} ({code})" for code, name in LANGUAGES.items()))  # noqa: T201
