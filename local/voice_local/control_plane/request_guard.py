"""Refuses what no AWS client of this machine sends: requests of pages in a browser, above all.

A stack can hold code that runs here as a plain process (functions), so a page that could make the browser post a
template to loopback would run code on this machine. A page cannot set the `Authorization` header of a request to
another site, and one that brings its own name to this address (DNS rebinding) is known by its `Host`. Signatures are
not checked: who can send such a request is on this machine anyway.
"""

import json
from collections.abc import Mapping
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from voice_local.control_plane.unlocked_requests import UnlockedAnswer, UnlockedRequest

SIGNED = "AWS4-HMAC-SHA256"
"""How the Authorization header of a signed request begins."""

_HOSTS = ("127.0.0.1", "localhost")


class RequestGuard:
    """Asked before everything else; answers what is refused and lets the rest pass."""

    def __init__(self, access_key_id: str, unsigned_below: str) -> None:
        """Take the key that presigned URLs must be made with, and the path below which nobody signs."""
        self._access_key_id = access_key_id
        self._unsigned_below = unsigned_below

    def answer(self, request: UnlockedRequest) -> UnlockedAnswer | None:
        """Return the refusal of a request, None when it may pass."""
        host = request.headers.get("HOST", "").rpartition(":")[0] or request.headers.get("HOST", "")
        if host not in _HOSTS and not host.endswith(".localhost"):
            return _refusal(request.headers, "AccessDenied", f"This is a local cloud on 127.0.0.1, not {host[:100]}.")
        if request.path.startswith(self._unsigned_below) or self._is_signed(request):
            return None
        return _refusal(
            request.headers,
            "MissingAuthenticationToken",
            'Request is missing Authentication Token: sign it with the keys of `eval "$(voice local env)"`.',
        )

    def _is_signed(self, request: UnlockedRequest) -> bool:
        if request.headers.get("AUTHORIZATION", "").startswith(SIGNED):
            return True
        # A presigned URL: a page can make one up, but not this cloud's key.
        query = parse_qs(request.query)
        credential = (query.get("X-Amz-Credential") or query.get("AWSAccessKeyId") or [""])[0]
        return credential.partition("/")[0] == self._access_key_id


def _refusal(headers: Mapping[str, str], code: str, message: str) -> UnlockedAnswer:
    answered = {"Content-Type": "text/xml", "X-Amzn-ErrorType": code}
    if "X_AMZ_TARGET" in headers:
        answered["Content-Type"] = "application/x-amz-json-1.1"
        return UnlockedAnswer(403, json.dumps({"__type": code, "message": message}).encode(), answered)
    error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return UnlockedAnswer(403, f"<ErrorResponse>{error}</ErrorResponse>".encode(), answered)
