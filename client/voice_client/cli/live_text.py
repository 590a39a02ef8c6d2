"""Shows what comes while it comes, on a terminal only, and takes it away when the result follows."""

import sys
from types import TracebackType
from typing import Self

LINES = 4
"""Lines of a long text that are shown, its last ones."""


class LiveText:
    """A text on standard error that changes in place; nothing at all where standard error is no terminal.

    Args:
        shown: False shows nothing on a terminal either.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self._live = None
        if shown and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - slow to load, and scripts never see it
            from rich.live import Live  # noqa: PLC0415

            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)

    def show(self, text: str) -> None:
        """Show a text in the place of the last one."""
        if self._live is not None:
            from rich.text import Text  # noqa: PLC0415

            room = LINES * self._live.console.width
            self._live.update(Text(text if len(text) <= room else "..." + text[3 - room :], style="dim"), refresh=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
