"""What holds for all tests: why one may be skipped, and that no machine is too slow for one.

In continuous integration a test may be skipped for the reasons below and no other: a skip must not hide a failure.
"""

import os
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# The time that an example takes is the machine's affair.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Node 20 is supported and past its end of life; jsii says so in eleven lines, in each process.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

ALLOWED_SKIPS = (
    r"this user may not make network namespaces",
    r"no image builder",
    r"no AWS credentials",
    r"no Chromium",
)
"""Regular expressions for the reasons; each names something the machine lacks, not something the project lacks."""

_skipped: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped[report.nodeid] = report.longrepr[2]


def _unexpected() -> Iterator[str]:
    for test, reason in _skipped.items():
        if not any(re.search(allowed, reason) for allowed in ALLOWED_SKIPS):
            yield f"{test}: {reason}"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if os.environ.get("CI") and exitstatus == pytest.ExitCode.OK and any(_unexpected()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    unexpected = list(_unexpected())
    if unexpected and os.environ.get("CI"):
        terminalreporter.section("skipped for a reason that continuous integration does not allow")
        for line in unexpected:
            terminalreporter.line(line)
