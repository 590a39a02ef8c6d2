"""What a person watching the demo sees: one line a step, a spinner while it runs, no wall of log text."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

_TITLE_WIDTH = 28

QUIET_SECONDS = 10.0
"""Where the output is no terminal, a long step says what it is at this often; a terminal shows every change."""


class Step:
    """A step that is running; its detail is shown beside the spinner, its outcome when it is done."""

    def __init__(self, console: Console, status: Status | None, title: str) -> None:
        self._console = console
        self._status = status
        self._title = title
        self._said = time.monotonic()
        self.outcome = ""

    def progress(self, detail: str) -> None:
        """Say what is going on now."""
        if self._status is not None:
            self._status.update(f"{self._title:<{_TITLE_WIDTH}} [dim]{escape(detail)}[/dim]")
        elif time.monotonic() - self._said >= QUIET_SECONDS:
            self._said = time.monotonic()
            self._console.print(f"    {escape(detail)}", highlight=False, soft_wrap=True)

    @contextmanager
    def handing_over_the_terminal(self) -> Iterator[bool]:
        """Stop the spinner while a child process writes to the terminal itself; False where there is none."""
        if self._status is not None:
            self._status.stop()
        try:
            yield self._status is not None
        finally:
            if self._status is not None:
                self._status.start()


class Display:
    """Prints to the console; plain lines where it is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step from its start to its end, with the time it took."""
        began = time.monotonic()
        status = self.console.status(title, spinner="dots") if self.console.is_terminal else None
        step = Step(self.console, status, title)
        if status is None:
            self.console.print(f"  … {escape(title)}", highlight=False)
        else:
            status.start()
        done = False
        try:
            yield step
            done = True
        finally:
            if status is not None:
                status.stop()
            mark = "[green]✓[/green]" if done else "[red]✗[/red]"
            took = f"{time.monotonic() - began:6.1f} s"
            self.console.print(
                f"  {mark} {escape(title):<{_TITLE_WIDTH}}[dim]{took}[/dim]  {escape(step.outcome)}",
                highlight=False,
                soft_wrap=True,
            )

    def details(self, rows: Mapping[str, str]) -> None:
        """Show named details of the step above."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=4)
        table.add_column(style="dim", no_wrap=True, min_width=8)
        table.add_column()
        for name, text in rows.items():
            table.add_row("", escape(name), escape(text))
        self.console.print(table, highlight=False)

    def figures(self, rows: list[tuple[str, str, str]]) -> None:
        """Show a table of (measure, value, meaning)."""
        table = Table(box=None, padding=(0, 2), show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(justify="right", style="cyan", no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self.console.print(table)
