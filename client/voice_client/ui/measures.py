"""Measures as the page takes them: fields of JSON, numbers to a thousandth."""

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def rounded(measures: "DataclassInstance") -> dict[str, Any]:
    """Return the fields of a record of measures; floats are rounded, records inside it too."""
    fields = dataclasses.asdict(measures)
    return {name: _rounded(value) for name, value in fields.items()}


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 3)
        case dict():
            return {name: _rounded(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_rounded(inner) for inner in value]
        case _:
            return value
