"""A container's log from CloudWatch, as it comes, with the bridge's JSON lines (docs/bridge-log.md) in plain words."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from stacks.names import Service, endpoint_name
from voice_ops.errors import OpsError
from voice_ops.session import AwsSession, error_code, translated

POLL_SECONDS = 2.0
"""Between two looks while following; CloudWatch itself is some seconds behind."""

OVERLAP_MS = 15_000
"""Looked at again each time: lines of several instances do not arrive in the order of their times."""

_SINCE = re.compile(r"(?P<number>\d+)(?P<unit>[smhd])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class NoLogError(OpsError):
    """There is no such log, or the time asked for is none."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line.

    Attributes:
        time: when it was written, UTC.
        instance: the log stream, `variant/instance`.
        message: as the container wrote it.
        level: `info`, `warning`, `error`; of lines that are not the bridge's, empty.
        text: in plain words.
    """

    time: datetime
    instance: str
    message: str
    level: str
    text: str


def seconds_of(since: str) -> float:
    """Return the seconds of `30s`, `10m`, `2h` or `1d`.

    Raises:
        NoLogError: it is none of these.
    """
    if (found := _SINCE.fullmatch(since)) is None:
        raise NoLogError(f"--since {since}: write 30s, 10m, 2h or 1d")
    return int(found["number"]) * _UNIT_SECONDS[found["unit"]]


def log_lines(
    stage: str, service: Service, aws: AwsSession, *, since_seconds: float, follow: bool
) -> Iterator[LogLine]:
    """Yield the lines of an endpoint's containers, oldest first; without an end when following.

    Raises:
        NoLogError: the endpoint has no log group: it is not deployed.
        AwsError: AWS could not be asked.
    """
    group = f"/aws/sagemaker/Endpoints/{endpoint_name(stage, service)}"
    start = max(0, int((time.time() - since_seconds) * 1000))
    seen: dict[str, int] = {}
    while True:
        newest = start
        for event in _events(aws, group, start):
            if event["eventId"] not in seen:
                seen[event["eventId"]] = event["timestamp"]
                yield _line(event)
            newest = max(newest, event["timestamp"])
        if not follow:
            return
        start = max(start, newest - OVERLAP_MS)
        # What is before the window is never asked for again.
        seen = {name: at for name, at in seen.items() if at >= start}
        time.sleep(POLL_SECONDS)


def last_lines(stage: str, service: Service, aws: AwsSession, *, since_seconds: float, count: int) -> list[LogLine]:
    """Return the newest lines, oldest first; none when there is no log yet."""
    try:
        return list(log_lines(stage, service, aws, since_seconds=since_seconds, follow=False))[-count:]
    except NoLogError:
        return []


def _events(aws: AwsSession, group: str, start: int) -> list[dict[str, Any]]:
    try:
        with translated(f"reading {group}"):
            pages = aws.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group, startTime=start)
            found = [event for page in pages for event in page["events"]]
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":
            raise
        raise NoLogError(
            f"there is no log group {group} in {aws.region}: deploy the stage, or check stage and region"
        ) from error
    return sorted(found, key=lambda event: event["timestamp"])


def _line(event: dict[str, Any]) -> LogLine:
    message = str(event["message"]).rstrip()
    level, text = in_words(message)
    return LogLine(
        time=datetime.fromtimestamp(event["timestamp"] / 1000, UTC),
        instance=str(event["logStreamName"]),
        message=message,
        level=level,
        text=text,
    )


def in_words(message: str) -> tuple[str, str]:
    """Return the level of a line and what it says; a line that is not the bridge's says itself, at no level."""
    try:
        fields = json.loads(message)
    except ValueError:
        return "", message
    if not isinstance(fields, dict) or "event" not in fields:
        return "", message
    event = str(fields["event"])
    shown = {name: value for name, value in fields.items() if name not in {"time", "level", "event"}}
    session = str(shown.pop("session", "") or "")
    text = _WORDS[event](shown) if event in _WORDS else _listed(event, shown)
    return str(fields.get("level", "")), f"[{session[:8]}] {text}" if session else text


def _listed(event: str, fields: dict[str, Any]) -> str:
    told = ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in fields.items())
    return f"{event.replace('_', ' ')}{f': {told}' if told else ''}"


def _value(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _closed(fields: dict[str, Any]) -> str:
    return (
        f"session closed: {fields.get('reason')} (code {fields.get('close_code')}) after {_s(fields, 'seconds')}, "
        f"{_s(fields, 'audio_seconds')} of audio, {fields.get('messages_in')} messages in, "
        f"{fields.get('messages_out')} out"
    )


def _gauges(fields: dict[str, Any]) -> str:
    told = [f"{fields.get('sessions', 0)} sessions open"]
    if "requests_running" in fields:
        told.append(f"{fields['requests_running']:g} requests running")
    if "requests_waiting" in fields:
        told.append(f"{fields['requests_waiting']:g} waiting")
    if "kv_cache_use" in fields:
        told.append(f"KV cache {100 * fields['kv_cache_use']:.0f} %")
    return ", ".join(told)


def _s(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return f"{value:.1f} s" if isinstance(value, int | float) else "? s"


_WORDS: dict[str, Any] = {
    "session_opened": lambda f: f"session opened on {f.get('path')}, {f.get('sessions')} open now",
    "session_first_delta": lambda f: f"first message of the model after {_s(f, 'seconds')}",
    "session_done": lambda f: f"done: {_s(f, 'audio_seconds')} of audio, {_s(f, 'seconds')} after it began",
    "session_error": lambda f: f"session error {f.get('code')}, on the side of {f.get('side')}",
    "session_closed": _closed,
    "gauges": _gauges,
    "health": lambda f: "healthy" if f.get("healthy") else f"not healthy: {f.get('detail')}",
    "part_started": lambda f: f"{f.get('part')} started, process {f.get('pid')}",
    "container_failed": lambda f: (
        f"the container ends: {f.get('part')} exited with {f.get('exit_code')}: {f.get('reason')}"
    ),
    "container_stopping": lambda f: f"the container stops: {f.get('reason')}",
}
