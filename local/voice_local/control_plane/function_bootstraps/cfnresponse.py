"""What Lambda adds to inline Python code: sends a custom resource's answer."""

import json
import urllib.request
from typing import Any

SUCCESS = "SUCCESS"
FAILED = "FAILED"


def send(  # noqa: PLR0917 (the signature is Lambda's)
    event: dict[str, Any],
    context: Any,
    responseStatus: str,  # noqa: N803 (the names are Lambda's)
    responseData: Any,  # noqa: N803
    physicalResourceId: str | None = None,  # noqa: N803
    noEcho: bool = False,  # noqa: N803
    reason: str | None = None,
) -> None:
    """PUT the answer to the event's response URL."""
    answer = {
        "Status": responseStatus,
        "Reason": reason or f"See the details in CloudWatch Log Stream: {context.log_stream_name}",
        "PhysicalResourceId": physicalResourceId or context.log_stream_name,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "NoEcho": noEcho,
        "Data": responseData,
    }
    request = urllib.request.Request(  # noqa: S310 (the control plane's own URL)
        event["ResponseURL"], json.dumps(answer).encode(), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
