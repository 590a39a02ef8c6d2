"""The lines on a terminal: grouped, in columns that narrow terminals fold, and readable without colour."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from voice_ops.doctor.check import Check, Status
from voice_ops.doctor.examination import Examination

NARROW = 76
"""Columns below which the name of a check gets a row of its own."""

_NAME_COLUMNS = 22

_MARKS = {Status.PASS: "✓", Status.WARN: "!", Status.FAIL: "✗", Status.SKIP: "·"}
_STYLES = {Status.PASS: "green", Status.WARN: "yellow", Status.FAIL: "bold red", Status.SKIP: "dim"}
_PLAIN = {"✓": "+", "✗": "x", "·": "-", "→": ">"}


def show(examination: Examination, console: Console) -> None:
    """Print every line, and a last one that says whether a deploy can begin."""
    plain = not console.encoding.lower().startswith("utf")
    narrow = console.width < NARROW
    with console.capture() as printed:
        for group, checks in examination.groups.items():
            if checks:
                console.print(Text(group, style="bold"))
                console.print(Padding(_rows(_folded(checks), narrow=narrow, plain=plain), (0, 0, 1, 1)))
        console.print(_verdict(examination))
    # Columns are filled up with spaces, which are in the way of who copies a command.
    text = "".join(f"{line.rstrip()}\n" for line in printed.get().splitlines())
    # A name out of an answer may hold what the terminal's encoding has not.
    console.file.write(text.encode(console.encoding, "backslashreplace").decode(console.encoding))
    console.file.flush()


def _folded(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """Put those that were not looked at for the same reason into one line, where the first of them stands."""
    reasons: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        if check.status is Status.SKIP:
            reasons.setdefault((check.detail, check.advice), []).append(check)
    folded: list[Check] = []
    for check in checks:
        same = reasons.get((check.detail, check.advice), [check]) if check.status is Status.SKIP else [check]
        if len(same) == 1:
            folded.append(check)
        elif same[0] is check:
            names = ", ".join(skipped.id for skipped in same)
            folded.append(Check(f"{len(same)} checks", Status.SKIP, f"{check.detail} ({names})", check.advice))
    return tuple(folded)


def _rows(checks: tuple[Check, ...], *, narrow: bool, plain: bool) -> RenderableType:
    if narrow:
        rows: list[RenderableType] = []
        for check in checks:
            rows.append(Text.assemble(_status(check, plain=plain), "  ", (check.id, "bold")))
            rows.append(Padding(_found(check, plain=plain), (0, 0, 0, 3)))
        return Group(*rows)
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, min_width=_NAME_COLUMNS)
    table.add_column(ratio=1, overflow="fold")
    for check in checks:
        style = "dim" if check.status is Status.SKIP else ""
        table.add_row(_status(check, plain=plain), Text(check.id, style=style), _found(check, plain=plain))
    return table


def _status(check: Check, *, plain: bool) -> Text:
    mark = _MARKS[check.status]
    return Text(f"{_PLAIN.get(mark, mark) if plain else mark} {check.status}", style=_STYLES[check.status])


def _found(check: Check, *, plain: bool) -> RenderableType:
    detail = Text(check.detail, style="dim" if check.status is Status.SKIP else "")
    if not check.advice:
        return detail
    advice = Table.grid(padding=(0, 1, 0, 0))
    advice.add_column(no_wrap=True)
    advice.add_column(overflow="fold")
    advice.add_row(_PLAIN["→"] if plain else "→", Text(check.advice, style="cyan"))
    return Group(detail, advice)


def _verdict(examination: Examination) -> Text:
    counts = {status: examination.count(status) for status in Status}
    parts = [
        f"{counts[Status.PASS]} passed",
        *([f"{counts[Status.WARN]} to read"] if counts[Status.WARN] else []),
        *([f"{counts[Status.FAIL]} failed"] if counts[Status.FAIL] else []),
        *([f"{counts[Status.SKIP]} not looked at"] if counts[Status.SKIP] else []),
    ]
    if examination.failed:
        failures = ", ".join(check.id for check in examination.checks if check.status is Status.FAIL)
        verdict = Text(f"Stage {examination.stage} cannot be deployed like this: {failures}", style="bold red")
        anyway = "\n`make deploy` stops here; FORCE=1 lets it go on all the same"
    else:
        all_seen = counts[Status.PASS] == len(examination.checks)
        nothing = "Nothing stands" if all_seen else "Nothing was found that stands"
        verdict = Text(f"{nothing} in the way of stage {examination.stage}", style="bold green")
        anyway = ""
    return Text.assemble(verdict, f"\n{', '.join(parts)}{anyway}")
