"""CloudWatch Logs' filter patterns: which log events a metric filter counts, and the value that it takes out of one.

The grammar, as far as it is read here: terms that must all be in the text (`ERROR "out of memory"`), and conditions on
JSON, such as `{ ($.event = "session_error") && ($.code != "session_limit*") }`:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
"""

import fnmatch
import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

type Condition = Callable[[Any], bool]
"""Whether a decoded JSON event meets it."""

_TOKEN = re.compile(r'\s*(?:(?P<word>&&|\|\||[()]|!=|<=|>=|=|<|>|\$[\w.\[\]-]+|-?[\w.*+-]+)|"(?P<quoted>[^"]*)")')
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class PatternNotReadError(ValueError):
    """A pattern is wrong, or of a form that is not read here."""

    def __init__(self, pattern: str, where: str) -> None:
        super().__init__(
            f"the filter pattern {pattern!r} is not read here ({where}); terms and conditions of the form "
            '{ ($.field = "text") && ($.number > 1) } are'
        )


class FilterPattern:
    """One pattern, read."""

    def __init__(self, pattern: str) -> None:
        """Read it.

        Raises:
            PatternNotReadError: see the class.
        """
        text = pattern.strip()
        self._terms: list[str] = []
        self._condition: Condition | None = None
        if text.startswith("{") and text.endswith("}"):
            self._condition = _Reader(pattern, text[1:-1]).condition()
        elif text.startswith(("{", "[", "%")) or re.search(r"(^|\s)[?-]", text):
            raise PatternNotReadError(pattern, "no terms that must all be there")
        else:
            self._terms = [quoted or term for quoted, term in re.findall(r'"([^"]*)"|(\S+)', text)]

    def matches(self, message: str) -> bool:
        """Return whether a log event is one of those meant."""
        if self._condition is None:
            return all(term in message for term in self._terms)
        event = _decoded(message)
        return event is not None and self._condition(event)


def value_of(value: str, message: str) -> float | None:
    """Return what a metric's `metricValue` makes of an event: a number, or `$.field` of it; None where it has none."""
    found = _at(_decoded(message), value) if value.startswith("$") else value
    try:
        return None if isinstance(found, bool) or found is None else float(found)
    except (TypeError, ValueError):
        return None


def _decoded(message: str) -> Any:
    try:
        return json.loads(message)
    except ValueError:
        return None


def _at(event: Any, selector: str) -> Any:
    """Return what `$.a.b[0]` names, None when there is no such thing."""
    for name, index in re.findall(r"\.([\w-]+)|\[(\d+)\]", selector):
        if name and isinstance(event, dict):
            event = event.get(name)
        elif index and isinstance(event, list) and int(index) < len(event):
            event = event[int(index)]
        else:
            return None
    return event


class _Reader:
    """Reads a condition on JSON: `||` binds least, then `&&`, then parentheses and comparisons."""

    def __init__(self, pattern: str, text: str) -> None:
        self._pattern = pattern
        self._tokens = list(self._split(text))

    def condition(self) -> Condition:
        read = self._either()
        if self._tokens:
            raise self._unread()
        return read

    def _split(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield each token, and whether it was in quotes."""
        position, text = 0, text.rstrip()
        while position < len(text):
            if (found := _TOKEN.match(text, position)) is None:
                raise PatternNotReadError(self._pattern, f"at {text[position:].strip()!r}")
            quoted = found["quoted"] is not None
            yield (found["quoted"] if quoted else found["word"]), quoted
            position = found.end()

    def _take(self, *words: str) -> bool:
        """Drop the next token when it is one of these; return whether it was."""
        if self._tokens and not self._tokens[0][1] and self._tokens[0][0] in words:
            self._tokens.pop(0)
            return True
        return False

    def _next(self) -> tuple[str, bool]:
        if not self._tokens:
            raise self._unread()
        return self._tokens.pop(0)

    def _unread(self) -> PatternNotReadError:
        rest = " ".join(token for token, _ in self._tokens)
        return PatternNotReadError(self._pattern, f"at {rest!r}" if rest else "it ends too early")

    def _either(self) -> Condition:
        found = [self._all()]
        while self._take("||"):
            found.append(self._all())
        return lambda event: any(condition(event) for condition in found)

    def _all(self) -> Condition:
        found = [self._one()]
        while self._take("&&"):
            found.append(self._one())
        return lambda event: all(condition(event) for condition in found)

    def _one(self) -> Condition:
        if self._take("("):
            inner = self._either()
            if not self._take(")"):
                raise self._unread()
            return inner
        (selector, _), (compared, quoted_operator), (value, quoted) = self._next(), self._next(), self._next()
        if not selector.startswith("$") or quoted_operator or compared not in _COMPARISONS:
            raise PatternNotReadError(self._pattern, f"at {selector} {compared}")
        number = None if quoted else value_of(value, "")
        if number is None and compared not in {"=", "!="}:
            raise PatternNotReadError(self._pattern, f"{compared} compares numbers")

        def meets(event: Any) -> bool:
            there = _at(event, selector)
            if number is not None:
                is_number = isinstance(there, int | float) and not isinstance(there, bool)
                return is_number and _COMPARISONS[compared](there, number)
            if there is None or isinstance(there, dict | list):
                return False
            text = there if isinstance(there, str) else json.dumps(there)
            return fnmatch.fnmatchcase(text, value.replace("[", "[[]").replace("?", "[?]")) == (compared == "=")

        return meets
