"""Starts the build that stages weights, or finds the one that runs, and follows its log to its end."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from voice_ops.errors import OpsError
from voice_ops.session import AwsSession, UnreachableError, error_code, translated
from voice_ops.weights.staged import StagingPlace, WantedWeights

POLL_SECONDS = 2.0
"""Between two looks: a line of progress comes every 5 s."""

LAST_WORDS_SECONDS = 10.0
"""After the build's end, until its last lines are in the log: CloudWatch is a little behind."""

LONGEST_SECONDS = 90 * 60.0
"""In all: a build's own limit is at most 55 minutes, and it may stand in a queue for 30 before."""

LONGEST_SILENCE_SECONDS = 300.0
"""Without an answer while a build is followed: the build goes on, and a laptop that slept comes back."""

_RECENT = 20
"""Builds that are looked through for one that runs."""


class StagingFailedError(OpsError):
    """The build ended, and not well."""


@dataclass(frozen=True, slots=True)
class RunningBuild:
    """One build.

    Attributes:
        build_id: `project:uuid`.
        joined: whether it ran already.
    """

    build_id: str
    joined: bool


def start_or_join(wanted: WantedWeights, place: StagingPlace, aws: AwsSession) -> RunningBuild:
    """Start a build, or find the one that stages just this.

    Raises:
        AwsError: AWS could not be asked, or the caller may not start builds.
    """
    codebuild = aws.client("codebuild")
    variables = {"MODEL": wanted.model, "REVISION": wanted.revision, "FILES": ",".join(wanted.files)}
    with translated(f"starting the build {place.project}"):
        recent = codebuild.list_builds_for_project(projectName=place.project)["ids"][:_RECENT]
        for build in codebuild.batch_get_builds(ids=recent)["builds"] if recent else ():
            given = {item["name"]: item["value"] for item in build["environment"]["environmentVariables"]}
            if build["buildStatus"] == "IN_PROGRESS" and variables.items() <= given.items():
                return RunningBuild(str(build["id"]), joined=True)
        started = codebuild.start_build(
            projectName=place.project,
            environmentVariablesOverride=[{"name": name, "value": value} for name, value in variables.items()],
        )
    return RunningBuild(str(started["build"]["id"]), joined=False)


def follow(build: RunningBuild, aws: AwsSession) -> Iterator[str]:
    """Yield the lines of a build's log as they come, until it ends.

    Raises:
        StagingFailedError: it did not succeed, with its last line.
        AwsError: AWS could not be asked, for `LONGEST_SILENCE_SECONDS` if it did not answer.
    """
    began = answered = time.monotonic()
    deadline = began + LONGEST_SECONDS
    tail = _Tail(aws)
    while True:
        try:
            with translated(f"following build {build.build_id}"):
                described = aws.client("codebuild").batch_get_builds(ids=[build.build_id])["builds"][0]
                yield from tail.new_lines(described)
        except UnreachableError:
            if time.monotonic() - answered >= LONGEST_SILENCE_SECONDS:
                raise
            time.sleep(POLL_SECONDS)
            continue
        answered = time.monotonic()
        status = str(described["buildStatus"])
        if status != "IN_PROGRESS":
            break
        if time.monotonic() >= deadline:
            raise StagingFailedError(f"build {build.build_id} has not ended after {LONGEST_SECONDS / 60:.0f} minutes")
        time.sleep(POLL_SECONDS)
    settled = time.monotonic() + LAST_WORDS_SECONDS
    while not tail.has_ended(status) and time.monotonic() < settled:
        time.sleep(POLL_SECONDS / 4)
        with translated(f"following build {build.build_id}"):
            yield from tail.new_lines(described)
    if status != "SUCCEEDED":
        raise StagingFailedError(f"build {build.build_id} ended as {status}: {_why(described, tail.last)}")


class _Tail:
    """The build's log, read to where it has come."""

    def __init__(self, aws: AwsSession) -> None:
        self._aws = aws
        self._token: str | None = None
        self.last = ""

    def new_lines(self, described: dict[str, Any]) -> Iterator[str]:
        """Yield what has come since the last call."""
        where = described.get("logs", {})
        if not where.get("groupName") or not where.get("streamName"):
            return
        while True:
            given = {"nextToken": self._token} if self._token else {"startFromHead": True}
            try:
                answer = self._aws.client("logs").get_log_events(
                    logGroupName=where["groupName"], logStreamName=where["streamName"], **given
                )
            except ClientError as error:
                if error_code(error) == "ResourceNotFoundException":
                    return  # nothing was written yet
                raise
            for event in answer["events"]:
                self.last = str(event["message"]).rstrip()
                yield self.last
            if answer["nextForwardToken"] == self._token or not answer["events"]:
                return
            self._token = answer["nextForwardToken"]

    def has_ended(self, status: str) -> bool:
        """Return whether the copier's last line is there."""
        beginning = "failed:" if status != "SUCCEEDED" else ("complete;", "the manifest ")
        return self.last.startswith(beginning)


def _why(described: dict[str, Any], last: str) -> str:
    if last.startswith("failed:"):
        return last.removeprefix("failed:").strip()
    told = [
        str(context.get("message", ""))
        for phase in described.get("phases", ())
        for context in phase.get("contexts", ())
        if context.get("message")
    ]
    return "; ".join(told) or last or "it gave no reason"
