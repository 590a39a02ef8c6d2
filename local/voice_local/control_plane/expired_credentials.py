"""Answers as AWS does to temporary credentials whose time is over, for keys that begin with a documented prefix.

No API ends a session early, and the shortest lives 15 minutes; so what expired credentials look like to a program is
tried out with a key that counts as expired from the start:

    AWS_ACCESS_KEY_ID=ASIAEXPIRED AWS_SECRET_ACCESS_KEY=x AWS_SESSION_TOKEN=x voice doctor
"""

import json

from voice_local.control_plane.unlocked_requests import UnlockedAnswer, UnlockedRequest

EXPIRED_KEYS = "ASIAEXPIRED"
"""How the id of such an access key begins."""

_MESSAGE = "The security token included in the request is expired"


class ExpiredCredentials:
    """Answers requests that such a key has signed."""

    def answer(self, request: UnlockedRequest) -> UnlockedAnswer | None:
        """Refuse; None when the key is another."""
        if f"Credential={EXPIRED_KEYS}" not in request.headers.get("AUTHORIZATION", ""):
            return None
        if "X_AMZ_TARGET" in request.headers:
            code = "ExpiredTokenException"
            body = json.dumps({"__type": code, "message": _MESSAGE})
            headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amzn-ErrorType": code}
            return UnlockedAnswer(400, body.encode(), headers)
        error = f"<Error><Type>Sender</Type><Code>ExpiredToken</Code><Message>{_MESSAGE}</Message></Error>"
        return UnlockedAnswer(
            403,
            f"<ErrorResponse>{error}<RequestId>00000000-0000-0000-0000-000000000000</RequestId></ErrorResponse>".encode(),
            {"Content-Type": "text/xml", "X-Amzn-ErrorType": "ExpiredToken"},
        )
