"""What a person sees while a stage is deployed or destroyed: a line a step, and stacks and containers as they move."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from voice_ops.stack_watch import StackEvent, StackView

_TITLE_WIDTH = 26
_LONGEST_WORDS = 110


@dataclass(slots=True)
class Step:
    """A step under way; what it came to is shown when it is done."""

    outcome: str = ""


class Display:
    """Prints to a console; plain lines where it is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step from its beginning to its end, with the time it took."""
        began = time.monotonic()
        step = Step()
        done = False
        try:
            if self.console.is_terminal:
                with self.console.status(escape(title)):
                    yield step
            else:
                self.console.print(f"  … {escape(title)}")
                yield step
            done = True
        finally:
            self.ended(title, began, step.outcome, done=done)

    def ended(self, title: str, began: float, outcome: str, *, done: bool) -> None:
        """Print how a step ended."""
        mark = "[green]✓[/green]" if done else "[red]✗[/red]"
        took = f"{time.monotonic() - began:7.1f} s"
        line = f"  {mark} {escape(title):<{_TITLE_WIDTH}}[dim]{took}[/dim]  {escape(outcome)}"
        self.console.print(line.rstrip(), soft_wrap=True)

    @contextmanager
    def moving(self, title: str) -> Iterator["Moving"]:
        """Show stacks as they move."""
        began = time.monotonic()
        moving = Moving(self.console, title)
        done = False
        try:
            if self.console.is_terminal:
                with Live(console=self.console, refresh_per_second=8, transient=True, get_renderable=moving.page):
                    yield moving
            else:
                self.console.print(f"  … {escape(title)}")
                yield moving
            done = True
        finally:
            self.ended(title, began, moving.outcome, done=done)


class Moving:
    """Stacks under way."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._spinner = Spinner("dots", text=Text(title))
        self._began = time.monotonic()
        self._title = title
        self.views: Sequence[StackView] = ()
        """As they were at the last look."""
        self._said: set[str] = set()
        self.outcome = ""

    def say(self, line: str) -> None:
        """Print a line that stays, once."""
        if line not in self._said:
            self._said.add(line)
            self._console.print(f"    [yellow]{escape(line)}[/yellow]", soft_wrap=True)

    def show(self, events: Sequence[StackEvent], views: Sequence[StackView]) -> None:
        """Take a look's news in: failures stay on the screen, the rest moves."""
        self.views = views
        for event in events:
            if event.failed:
                what = f"{escape(event.stack)} {escape(event.resource)} {event.status}"
                self._console.print(f"    [red]{what}[/red] {escape(event.reason)}", soft_wrap=True)
            elif not self._console.is_terminal:
                self._console.print(
                    f"    {escape(event.stack)} {escape(event.resource_type)} {escape(event.resource)} {event.status}",
                    soft_wrap=True,
                )
        words = next((view.last_words for view in views if view.last_words), "")
        if words and words not in self._said and not self._console.is_terminal:
            self._said.add(words)
            self._console.print(f"    container: {escape(words[:_LONGEST_WORDS])}", soft_wrap=True)

    def page(self) -> RenderableType:
        """Return what is on the screen now."""
        self._spinner.update(text=Text(f"{self._title}  {time.monotonic() - self._began:.0f} s"))
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=2)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True)
        for view in self.views:
            if not view.status:
                table.add_row("", view.name, Text("waiting", style="dim"), "")
                continue
            doing = ", ".join(view.working_on)
            if view.endpoint_state:
                doing = f"endpoint {view.endpoint_state}{f', {doing}' if doing else ''}"
            table.add_row("", view.name, Text(view.status, style=_style(view.status)), Text(doing, style="dim"))
            if view.last_words:
                table.add_row("", "", Text("container", style="dim"), Text(view.last_words, style="dim italic"))
        return Group(self._spinner, table)


def _style(status: str) -> str:
    if "ROLLBACK" in status or status.endswith("FAILED"):
        return "red"
    return "green" if status.endswith("_COMPLETE") else "yellow"
