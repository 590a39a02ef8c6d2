"""What a person sees while a stage is deployed or destroyed: a line a step, and stacks and containers as they move."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from voice_ops.stack_watch import StackEvent, StackView

_TITLE_WIDTH = 26
_LONGEST_WORDS = 110

QUIET_SECONDS = 10.0
"""Where the output is no terminal, a step that goes on says so this often; a terminal shows every change."""


class Step:
    """A step under way; what it came to is shown when it is done."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._began = time.monotonic()
        self.outcome = ""
        self.failed = False
        """It was done, and its outcome is bad."""

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._began

    def __rich__(self) -> Text:
        """Return what stands beside the spinner."""
        return Text.assemble(f"{self.title:<{_TITLE_WIDTH}}", (f"{self.seconds:7.1f} s", "dim"))


class Display:
    """Prints to a console; plain lines where it is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step from its beginning to its end, with the time it took."""
        step = Step(title)
        with self._from_beginning_to_end(step, self.console.status(step), lambda: ""):
            yield step

    @contextmanager
    def moving(self, title: str) -> Iterator["Moving"]:
        """Show stacks as they move."""
        moving = Moving(self.console, title)
        live = Live(console=self.console, refresh_per_second=8, transient=True, get_renderable=moving.page)
        with self._from_beginning_to_end(moving, live, moving.in_words):
            yield moving

    @contextmanager
    def _from_beginning_to_end(
        self, step: Step, live: AbstractContextManager[object], doing: Callable[[], str]
    ) -> Iterator[None]:
        done = False
        try:
            with live if self.console.is_terminal else self._told_now_and_then(step, doing):
                yield
            done = not step.failed
        finally:
            mark = "[green]✓[/green]" if done else "[red]✗[/red]"
            line = (
                f"  {mark} {escape(step.title):<{_TITLE_WIDTH}}[dim]{step.seconds:7.1f} s[/dim]  {escape(step.outcome)}"
            )
            self.console.print(line.rstrip(), soft_wrap=True)

    @contextmanager
    def _told_now_and_then(self, step: Step, doing: Callable[[], str]) -> Iterator[None]:
        """Print that a step begins, and every `QUIET_SECONDS` that it goes on, and with what."""
        self.console.print(f"  … {escape(step.title)}")
        ended = threading.Event()

        def tell() -> None:
            while not ended.wait(QUIET_SECONDS):
                words = doing()
                line = f"    {step.title}, {step.seconds:.0f} s{f': {words}' if words else ''}"
                self.console.print(escape(line), soft_wrap=True)

        thread = threading.Thread(target=tell, name="signs-of-life", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class Moving(Step):
    """Stacks under way."""

    def __init__(self, console: Console, title: str) -> None:
        super().__init__(title)
        self._console = console
        self._spinner = Spinner("dots", text=self)
        self._said: set[str] = set()
        self.views: Sequence[StackView] = ()
        """As they were at the last look."""

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

    def in_words(self) -> str:
        """Return what goes on now, in one line; empty before the first look."""
        return "; ".join(f"{view.name} {view.status} {_doing(view)}".rstrip() for view in self.views if view.status)

    def page(self) -> RenderableType:
        """Return what is on the screen now."""
        # The last column takes what the others leave, and cuts what does not fit.
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        table.add_column(width=2)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
        words = []
        for view in self.views:
            status = Text(view.status, style=_style(view.status)) if view.status else Text("waiting", style="dim")
            table.add_row("", view.name, status, Text(_doing(view), style="dim"))
            if view.last_words:
                said = f"    {view.name} says: {view.last_words}"
                words.append(Text(said, style="dim italic", no_wrap=True, overflow="ellipsis"))
        return Group(self._spinner, table, *words)


def _doing(view: StackView) -> str:
    endpoint = [f"endpoint {view.endpoint_state}"] if view.endpoint_state else []
    return ", ".join([*endpoint, *view.working_on])


def _style(status: str) -> str:
    if "ROLLBACK" in status or status.endswith("FAILED"):
        return "red"
    return "green" if status.endswith("_COMPLETE") else "yellow"
