"""Options that all commands share: which endpoint, and how to reach it."""

from pathlib import Path
from typing import Annotated, TypedDict

import typer

from voice_client.cli.failure import ask_for_tracebacks
from voice_client.errors import BadInputError

_WHERE = "Where"

StageOption = Annotated[
    str | None,
    typer.Option("--stage", help="Deployed stage whose endpoint is used. (default: dev)", rich_help_panel=_WHERE),
]
EndpointOption = Annotated[
    str | None,
    typer.Option("--endpoint", help="Name of a SageMaker endpoint, instead of a stage.", rich_help_panel=_WHERE),
]
RegionOption = Annotated[
    str | None,
    typer.Option("--region", help="AWS region. (default: the AWS SDK's own chain)", rich_help_panel=_WHERE),
]
EndpointUrlOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url",
        help="https://HOST:PORT of the streaming API. (default: AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2, else AWS)",
        rich_help_panel=_WHERE,
    ),
]
CaBundleOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-bundle",
        help="PEM file of certificate authorities to trust. (default: SSL_CERT_FILE, AWS_CA_BUNDLE, else the system's)",
        rich_help_panel=_WHERE,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", help="Name the server knows the model by. (default: the stage's)", rich_help_panel=_WHERE),
]
NoRetryOption = Annotated[bool, typer.Option("--no-retry", help="Fail at the first loss of the stream.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", callback=ask_for_tracebacks, help="Show a traceback when it fails (as VOICE_DEBUG=1)."),
]


class Where(TypedDict):
    """Arguments of `Transcriber.connect` and `Synthesizer.connect` that say which endpoint."""

    stage: str | None
    endpoint_name: str | None
    region: str | None
    endpoint_url: str | None
    ca_bundle: Path | None
    model: str | None


def where(
    *,
    stage: str | None,
    endpoint: str | None,
    region: str | None,
    endpoint_url: str | None,
    ca_bundle: Path | None,
    model: str | None,
) -> Where:
    """Return the connection that the options describe.

    Raises:
        BadInputError: both a stage and an endpoint, or a CA bundle that is not there; all problems together.
    """
    problems = []
    if stage is not None and endpoint is not None:
        problems.append("--stage and --endpoint exclude each other")
    if ca_bundle is not None and not ca_bundle.is_file():
        problems.append(f"--ca-bundle {ca_bundle} is no file")
    if problems:
        raise BadInputError("; ".join(problems))
    return Where(
        stage=stage,
        endpoint_name=endpoint,
        region=region,
        endpoint_url=endpoint_url,
        ca_bundle=ca_bundle,
        model=model,
    )
