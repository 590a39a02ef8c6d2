"""Options that the commands of `voice bench` share, each declared once, in groups that a command takes as a whole."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from voice_client.cli import options

_LOAD = "Load"
_RESULT = "Result"

ChunkBytes = Annotated[
    int,
    typer.Option("--chunk-bytes", help="PCM16 in one message; 4096 bytes are 128 ms.", rich_help_panel=_LOAD),
]
Recordings = Annotated[
    Path | None,
    typer.Option(
        "--recordings",
        metavar="DIR",
        help="Folder of NAME.wav with NAME.txt. (default: five clips of the package)",
        rich_help_panel=_LOAD,
    ),
]
Texts = Annotated[
    Path | None,
    typer.Option(
        "--texts",
        metavar="FILE",
        help="Texts to be spoken, one a line. (default: eight of the package)",
        rich_help_panel=_LOAD,
    ),
]
Voice = Annotated[str | None, typer.Option("--voice", help="Voice of the model, such as Vivian.")]
Language = Annotated[str | None, typer.Option("--language", help="Name or code, such as English or en.")]
SpeakingEndpoint = Annotated[
    str | None,
    typer.Option(
        "--speaking-endpoint", help="With --endpoint, which hears: the one that speaks.", rich_help_panel="Where"
    ),
]


@dataclass(frozen=True, slots=True)
class Load:
    """How many callers, and for how long."""

    concurrency: Annotated[
        str,
        typer.Option("--concurrency", metavar="N,N,...", help="Streams at once, a step each.", rich_help_panel=_LOAD),
    ] = "1,4,8,16"
    duration: Annotated[
        float,
        typer.Option("--duration", metavar="SECONDS", help="Measured part of each step.", rich_help_panel=_LOAD),
    ] = 60.0
    warm_up: Annotated[
        float,
        typer.Option("--warm-up", metavar="SECONDS", help="Full load before it, not counted.", rich_help_panel=_LOAD),
    ] = 5.0
    ramp: Annotated[
        float, typer.Option("--ramp", metavar="SECONDS", help="Callers begin spread over it.", rich_help_panel=_LOAD)
    ] = 5.0
    open_loop: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Callers come at random, served or not, so many at once on average; each opens a stream of its own.",
            rich_help_panel=_LOAD,
        ),
    ] = False
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", help="Processes that play the callers. (default: one a 32 streams)", rich_help_panel=_LOAD
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Result:
    """What becomes of what was measured."""

    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder for the report: JSON and HTML.", rich_help_panel=_RESULT
        ),
    ] = Path("bench-results")
    price_per_hour: Annotated[
        float | None,
        typer.Option(
            "--price-per-hour",
            metavar="USD",
            help="Of all instances together. (default: by the instance type, where a price is known)",
            rich_help_panel=_RESULT,
        ),
    ] = None
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report on standard output.", rich_help_panel=_RESULT)
    ] = False
    debug: options.DebugOption = False


@dataclass(frozen=True, slots=True)
class Target:
    """What is measured."""

    local: Annotated[
        bool,
        typer.Option(
            "--local",
            help="Start a local cloud with this folder's project for the run, and end it.",
            rich_help_panel="Where",
        ),
    ] = False
    stage: options.StageOption = None
    endpoint: options.EndpointOption = None
    region: options.RegionOption = None
    endpoint_url: options.EndpointUrlOption = None
    ca_bundle: options.CaBundleOption = None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer in which each parameter that is a dataclass becomes an option for each of its fields.

    The command itself is called with the dataclasses; help, defaults and names are those of the fields.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if (group := groups.get(parameter.name)) is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        of_group = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=of_group[field.name]
            )
            for field in fields(group)
        ]

    @wraps(command)
    def taken_apart(**values: Any) -> None:
        whole = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**whole, **values)

    # What typer reads.
    vars(taken_apart)["__signature__"] = inspect.Signature(parameters)
    taken_apart.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return taken_apart
