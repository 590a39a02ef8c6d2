"""Runs what is looked at side by side, and turns whatever goes wrong in it into its own lines."""

import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from voice_ops.doctor.check import Check, Status, failed, skipped, warned
from voice_ops.doctor.subject import Limits
from voice_ops.session import AwsError, CredentialsUnusableError, NotPermittedError, error_code

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is looked at as a whole, and the lines it fills.

    Attributes:
        ids: of the lines; one that ends with `.*` stands for several.
        run: yields the lines.
        without_answer: makes the line of what has not ended in time.
    """

    ids: tuple[str, ...]
    run: Callable[[], Iterable[Check]] = field(repr=False)
    without_answer: Callable[[str, str, str], Check] = warned


Progress = Callable[[int, int], None]
"""Is told how many of the steps known so far have ended."""


class Runner:
    """Runs steps in threads that end with the process, so that neither Ctrl-C nor a limit waits for an answer."""

    def __init__(self, limits: Limits, progress: Progress | None = None) -> None:
        self._limits = limits
        self._progress = progress or (lambda _done, _known: None)
        self._lines: list[Check] = []
        self._known = self._done = 0

    def add(self, check: Check) -> None:
        """Take a line that needed no step."""
        self._lines.append(check)

    def lines(self) -> tuple[Check, ...]:
        """Return all lines so far."""
        return tuple(self._lines)

    def status_of(self, check: str) -> Status | None:
        """Return how a line ended; None when there is no such line."""
        return next((line.status for line in self._lines if line.id == check), None)

    def run(self, steps: Sequence[Step]) -> None:
        """Run steps to their end, or to the limit: what hangs then is told, with the lines that it gave before."""
        self._known += len(steps)
        waiting: queue.SimpleQueue[Step] = queue.SimpleQueue()
        ended: queue.SimpleQueue[Step] = queue.SimpleQueue()
        lines: dict[Step, list[Check]] = {step: [] for step in steps}
        for step in steps:
            waiting.put(step)

        def work() -> None:
            while True:
                try:
                    step = waiting.get_nowait()
                except queue.Empty:
                    return
                _run(step, lines[step])
                ended.put(step)

        for number in range(min(self._limits.threads, len(steps))):
            threading.Thread(target=work, name=f"doctor-{number}", daemon=True).start()
        deadline = time.monotonic() + self._limits.step_seconds
        under_way = set(steps)
        while under_way:
            try:
                step = ended.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            under_way.remove(step)
            self._done += 1
            self._progress(self._done, self._known)
        for step in steps:
            found = tuple(lines[step])
            self._lines += found
            if step in under_way:
                self._lines += (_without_answer(step, check, self._limits) for check in _missing(step, found))


def _without_answer(step: Step, check: str, limits: Limits) -> Check:
    return step.without_answer(
        check,
        f"no answer within {limits.step_seconds:g} s",
        "see what hangs (a credential_process of the profile, a proxy, a name server), then run this again",
    )


def _run(step: Step, lines: list[Check]) -> None:
    """Run one step; whatever it raises becomes its lines, and never somebody else's."""
    try:
        for check in step.run():
            lines.append(check)  # noqa: PERF402 - each is there for whoever gives the rest up
    except CredentialsUnusableError as error:
        lines += [skipped(check, str(error)) for check in _missing(step, lines)]
    except NotPermittedError as error:
        action = re.search(r"not authorized to perform: ([\w-]+:\w+)", str(error))
        advice = f"allow {action[1] if action else 'it'} to have this looked at, or look yourself"
        lines += [warned(check, f"not looked at: {error}", advice) for check in _missing(step, lines)]
    except AwsError as error:
        lines += [warned(check, f"not looked at: {error}", "run this again") for check in _missing(step, lines)]
    except ClientError as error:
        said = error.response.get("Error", {}).get("Message", "")
        detail = f"not looked at: {error.operation_name} was answered with {error_code(error)}: {said}"
        lines += [warned(check, detail, "look yourself, or run this again") for check in _missing(step, lines)]
    except Exception as error:  # noqa: BLE001 - becomes a line that fails
        # A fault of one check must hide no other; it is shown, fails the examination, and is logged whole.
        _log.debug("The check %s failed", step.ids, exc_info=True)
        detail = f"the check itself failed: {type(error).__name__}: {error}"
        lines += [
            failed(check, detail, "a fault of this program: VOICE_DEBUG=1 shows where")
            for check in _missing(step, lines)
        ]


def _missing(step: Step, lines: Sequence[Check]) -> Iterator[str]:
    there = [line.id for line in lines]
    for check in step.ids:
        name = check.removesuffix(".*")
        if not any(found == name or found.startswith(f"{name}.") for found in there):
            yield name
