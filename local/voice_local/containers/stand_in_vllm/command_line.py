"""The command line of `vllm serve`, as far as the stand-in needs it; every other flag is taken and reported."""

from dataclasses import dataclass, field

DEFAULT_PORT = 8000
"""vLLM's own default."""

DEFAULT_MAX_MODEL_LEN = 131_072
"""Tokens of 80 ms; what Voxtral Realtime's configuration allows when no flag says less."""


class CommandLineError(Exception):
    """The command line of `vllm serve` cannot be used; the message names every problem."""


@dataclass(frozen=True, slots=True)
class ServeCommand:
    """What `vllm serve` was asked for."""

    model: str
    served_model_names: tuple[str, ...]
    port: int = DEFAULT_PORT
    max_model_len: int = DEFAULT_MAX_MODEL_LEN
    other_flags: dict[str, str | bool] = field(default_factory=dict)
    """Flags that change nothing here, such as `--gpu-memory-utilization`."""


def parse_serve_command(arguments: list[str]) -> ServeCommand:
    """Read `serve MODEL [--flag value | --flag=value | --flag]...`.

    A flag followed by another flag, or by nothing, is a bare one. `_` and `-` in a flag's name mean the same.

    Raises:
        CommandLineError: no `serve`, no model, or a number that is none.
    """
    if arguments[:1] != ["serve"]:
        raise CommandLineError(f"vllm: only `vllm serve MODEL ...` is known here, not {arguments[:1]}")
    positional, flags = _split(arguments[1:])
    model = positional[0] if positional else _first(flags.pop("model", []))
    names = flags.pop("served-model-name", [])
    flags.pop("host", None)
    problems = []
    numbers = {"port": DEFAULT_PORT, "max-model-len": DEFAULT_MAX_MODEL_LEN}
    for flag in numbers:
        values = flags.pop(flag, None)
        if values is None:
            continue
        value = _first(values)
        if value is None or not value.isdecimal() or int(value) == 0:
            problems.append(f"--{flag} wants a whole number above 0, not {value!r}")
        else:
            numbers[flag] = int(value)
    if model is None:
        problems.append("no model is named: vllm serve MODEL")
    if problems or model is None:
        raise CommandLineError("vllm serve: " + "; ".join(problems))
    return ServeCommand(
        model=model,
        served_model_names=tuple(names) or (model,),
        port=numbers["port"],
        max_model_len=numbers["max-model-len"],
        other_flags={flag: " ".join(values) or True for flag, values in flags.items()},
    )


def _split(arguments: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    positional: list[str] = []
    flags: dict[str, list[str]] = {}
    values = positional
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            values = flags.setdefault(name.replace("_", "-"), [])
            if equals:
                values.append(value)
        else:
            values.append(argument)
    return positional, flags


def _first(values: list[str]) -> str | None:
    return values[0] if values else None
