"""What every part of the settings is made of."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


def split_commas(value: object) -> object:
    """Read a list as the command line gives it: `a,b`."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def none_if_empty(value: object) -> object:
    """Read an empty value of the command line as "not given"."""
    return None if value == "" else value


def _list_if_empty(value: object) -> object:
    return [] if value == "" else split_commas(value)


OptionalText = Annotated[str | None, BeforeValidator(none_if_empty)]
TextList = Annotated[tuple[str, ...], BeforeValidator(_list_if_empty)]


class SettingsSection(BaseModel):
    """A part of the settings: no unknown keys, never changed after it was read, defaults checked like values."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, protected_namespaces=())
