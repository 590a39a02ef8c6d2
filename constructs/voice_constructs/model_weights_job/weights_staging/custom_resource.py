"""The Lambda function behind the stack's staging: starts the build, and answers CloudFormation when it has ended.

It is called twice. CloudFormation's request starts a build, unless all is there, and is kept; the build's end comes as
an event of EventBridge, and the kept request is answered then. So nothing waits, and a build may take longer than the
15 minutes that a function may run; CloudFormation itself waits an hour at the most.

Protocol: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

import json
import os
import traceback
import urllib.request
from collections.abc import Mapping
from typing import Any

import boto3

from . import requests
from .manifest import Manifest, problems
from .store import WeightsStore

ANSWER_SECONDS = 30.0
"""For the PUT of the answer."""

LONGEST_REASON = 1500
"""Characters, ASCII alone; an answer may have 4096 bytes in all."""


def handler(event: Mapping[str, Any], _context: object) -> None:
    """Take a request of CloudFormation, or the end of a build."""
    if event.get("source") == "aws.codebuild":
        _build_ended(event["detail"])
    else:
        _asked(event)


def _asked(event: Mapping[str, Any]) -> None:
    wanted = event["ResourceProperties"]
    print(f"{event['RequestType']} {_name(wanted)}")  # noqa: T201 (the function's log)
    if event["RequestType"] == "Delete":
        # The weights stay: another stage, or the next deployment, may use them.
        _answer(event, "SUCCESS")
        return
    try:
        complete, incomplete = _look(wanted)
        if complete is None:
            print(f"{_name(wanted)}: {incomplete}; starting the build")  # noqa: T201
            requests.keep(boto3.client("s3"), _bucket(), event["RequestId"], event)
            _start(event["RequestId"], wanted)
            return
    except Exception as error:  # noqa: BLE001 (whatever it is: without an answer CloudFormation waits an hour)
        traceback.print_exc()
        _answer(event, "FAILED", reason=f"The staging of {_name(wanted)} could not be started: {error}")
        return
    _answer(event, "SUCCESS", complete)


def _start(request: str, wanted: Mapping[str, Any]) -> None:
    variables = {
        "MODEL": wanted["Model"],
        "REVISION": wanted["Revision"],
        "FILES": ",".join(wanted["Files"]),
        "STAGING_REQUEST": request,
    }
    boto3.client("codebuild").start_build(
        projectName=os.environ["STAGING_PROJECT"],
        environmentVariablesOverride=[{"name": name, "value": value} for name, value in variables.items()],
        # CloudFormation's request may reach the function twice.
        idempotencyToken=request,
    )


def _build_ended(detail: Mapping[str, Any]) -> None:
    build = str(detail["build-id"]).rpartition("build/")[2]
    variables = detail["additional-information"]["environment"]["environment-variables"]
    request = next((item["value"] for item in variables if item["name"] == "STAGING_REQUEST"), "")
    s3 = boto3.client("s3")
    event = requests.kept(s3, _bucket(), request) if request else None
    if event is None:
        print(f"nobody waits for build {build}")  # noqa: T201
        return
    wanted = event["ResourceProperties"]
    complete, incomplete = _look(wanted)
    if complete is not None and detail["build-status"] == "SUCCEEDED":
        _answer(event, "SUCCESS", complete)
    else:
        why = requests.reason(s3, _bucket(), request) or incomplete or "it gave no reason"
        _answer(
            event,
            "FAILED",
            reason=f"The weights of {_name(wanted)} are not complete; build {build} ended as "
            f"{detail['build-status']}: {why}",
        )
    # After the answer: an error before it makes Lambda take the event again, up to twice, with the request still there.
    requests.forget(s3, _bucket(), request)


def _look(wanted: Mapping[str, Any]) -> tuple[Manifest | None, str]:
    """Return the manifest of a complete revision, or None and what is not complete."""
    store = WeightsStore(boto3.client("s3"), _bucket())
    try:
        manifest = store.manifest(wanted["Model"], wanted["Revision"])
    except ValueError as error:
        return None, f"the manifest cannot be read ({error})"
    if manifest is None:
        return None, "there is no manifest"
    if sorted(manifest.patterns) != sorted(wanted["Files"]):
        return None, "the manifest is of other files"
    found = problems(manifest, store.sizes(wanted["Model"], wanted["Revision"]))
    return (None, "; ".join(found)) if found else (manifest, "")


def _answer(event: Mapping[str, Any], status: str, manifest: Manifest | None = None, *, reason: str = "") -> None:
    wanted = event["ResourceProperties"]
    body = {
        "Status": status,
        "Reason": reason.encode("ascii", "replace").decode()[:LONGEST_REASON],
        "PhysicalResourceId": event.get("PhysicalResourceId") if event["RequestType"] == "Delete" else _name(wanted),
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": {"Bytes": str(manifest.size), "Files": str(len(manifest.files))} if manifest else {},
    }
    print(f"answering {status} {reason}")  # noqa: T201
    request = urllib.request.Request(  # noqa: S310 (CloudFormation's own URL)
        event["ResponseURL"], data=json.dumps(body).encode(), method="PUT", headers={"Content-Type": ""}
    )
    urllib.request.urlopen(request, timeout=ANSWER_SECONDS).close()  # noqa: S310


def _name(wanted: Mapping[str, Any]) -> str:
    return f"{wanted['Model']}@{wanted['Revision']}"


def _bucket() -> str:
    return os.environ["WEIGHTS_BUCKET"]
