"""Replaces attributes of moto's classes while a control plane runs, and puts them back when it stops."""

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """A set of replaced attributes. Each replacement names its reason where it is made."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name` to `value`."""
        # From __dict__, so that a staticmethod or classmethod is put back as it was.
        before = vars(owner).get(name, _ABSENT)

        def undo() -> None:
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        setattr(owner, name, value)
        self._undo.append(undo)

    def method(self, owner: type, name: str, handler: Callable[..., Any]) -> None:
        """Replace or add a method; `handler` gets the instance first, whether it is a function or a bound method."""

        def method(instance: Any, /, *arguments: Any, **named: Any) -> Any:
            return handler(instance, *arguments, **named)

        # moto finds the operations of an API among the plain functions of a class.
        method.__name__ = name
        self.replace(owner, name, method)

    def around(self, owner: type, name: str, handler: Callable[..., Any]) -> None:
        """Put `handler` around a method; it gets the method as it was, then the instance, then the arguments."""
        original = getattr(owner, name)

        def around(instance: Any, /, *arguments: Any, **named: Any) -> Any:
            return handler(original, instance, *arguments, **named)

        around.__name__ = name
        self.replace(owner, name, around)

    def undo(self) -> None:
        """Put everything back, last replaced first."""
        while self._undo:
            self._undo.pop()()
