"""What a person sees of work in steps: one line a step, a spinner while it runs, no wall of log text."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table
from rich.text import Text

_TITLE_WIDTH = 28

QUIET_SECONDS = 10.0
"""Where the output is no terminal, a step that goes on says so this often; a terminal shows every change."""


class Step:
    """A step that is running; its detail is shown beside the spinner, its outcome when it is done."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._began = time.monotonic()
        self._detail = ""
        self._status = console.status(self, spinner="dots") if console.is_terminal else None
        self.outcome = ""

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._began

    def progress(self, detail: str) -> None:
        """Say what is going on now."""
        self._detail = detail

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

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show that it runs, and what it is at, as long as the block does."""
        with _turning(self._status) if self._status is not None else self._told_now_and_then():
            yield

    def __rich__(self) -> Text:
        """Return what stands beside the spinner."""
        shown = f"{self.seconds:6.1f} s  {self._detail}"
        return Text.assemble(f"{self._title:<{_TITLE_WIDTH}}", (shown, "dim"), no_wrap=True, overflow="ellipsis")

    @contextmanager
    def _told_now_and_then(self) -> Iterator[None]:
        self._console.print(f"  … {escape(self._title)}", highlight=False)
        ended = threading.Event()
        thread = threading.Thread(target=self._tell_until, args=(ended,), name="signs-of-life", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _tell_until(self, ended: threading.Event) -> None:
        while not ended.wait(QUIET_SECONDS):
            detail = f": {self._detail}" if self._detail else ""
            self._console.print(f"    {self.seconds:.0f} s{escape(detail)}", highlight=False, soft_wrap=True)


@contextmanager
def _turning(status: Status) -> Iterator[None]:
    status.start()
    try:
        yield
    finally:
        status.stop()


class Display:
    """Prints to the console; plain lines where it is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step from its start to its end, with the time it took."""
        step = Step(self.console, title)
        done = False
        try:
            with step.shown():
                yield step
            done = True
        finally:
            mark = "[green]✓[/green]" if done else "[red]✗[/red]"
            self.console.print(
                f"  {mark} {escape(title):<{_TITLE_WIDTH}}[dim]{step.seconds:6.1f} s[/dim]  {escape(step.outcome)}",
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
