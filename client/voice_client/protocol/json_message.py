"""Reads the fields of one JSON message, naming the event and the field when one is not as promised."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from voice_client.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event this release does not know; servers add events between releases."""

    type: str
    fields: Mapping[str, object] = field(repr=False)
    """The whole message as it came."""


@dataclass(frozen=True, slots=True)
class JsonMessage:
    """One JSON object with a `type`."""

    type: str
    fields: Mapping[str, object] = field(repr=False)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string field; a missing one takes the default.

        Raises:
            ProtocolError: the field is no string, or is missing and has no default.
        """
        value = self.fields.get(name, default)
        if not isinstance(value, str):
            raise self._unexpected(name, "a string", value)
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a whole-number field; a missing one takes the default.

        Raises:
            ProtocolError: the field is no whole number, or is missing and has no default.
        """
        value = self.fields.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._unexpected(name, "a whole number", value)
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean field; a missing one takes the default.

        Raises:
            ProtocolError: the field is no boolean.
        """
        value = self.fields.get(name, default)
        if not isinstance(value, bool):
            raise self._unexpected(name, "true or false", value)
        return value

    def _unexpected(self, name: str, wanted: str, value: object) -> ProtocolError:
        found = "missing" if name not in self.fields else type(value).__name__
        return ProtocolError(f"event {self.type}: field {name} should be {wanted} but is {found}")


def read_message(message: str) -> JsonMessage:
    """Read one text message.

    Raises:
        ProtocolError: the message is no JSON object with a string `type`.
    """
    try:
        fields = json.loads(message)
    except ValueError as error:
        raise ProtocolError(f"the server sent {len(message)} characters that are not JSON") from error
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise ProtocolError("the server sent JSON that is no event: it has no type")
    return JsonMessage(fields["type"], fields)
