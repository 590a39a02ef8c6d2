"""AWS's APIs as they answer on a bad day: on loopback, with real requests and the services' own forms of an error."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

from tests.ops.loopback_server import LoopbackServer, QuietHandler

IDENTITY = (
    "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/somebody</Arn>"
    "<UserId>AIDA</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: an HTTP status with an error code and its message, or a body as it is."""

    status: int
    code: str = ""
    message: str = ""
    body: bytes | None = None
    after_seconds: float = 0.0


Choice = Callable[[str, str], Answer]
"""From service and operation (`sagemaker`, `ListEndpoints`) to what is answered."""


def denied(service: str, operation: str) -> Answer:
    """Nothing is allowed."""
    said = f"User: arn:aws:iam::123456789012:user/somebody is not authorized to perform: {service}:{operation}"
    return Answer(403, "AccessDenied" if service in {"iam", "s3", "cloudformation"} else "AccessDeniedException", said)


class OddAws(LoopbackServer):
    """A server that every client of a session is led to by AWS_ENDPOINT_URL; who the caller is it says as AWS does."""

    def __init__(self, choose: Choice) -> None:
        self.choose = choose
        self.asked: list[str] = []
        super().__init__(self._handler())

    def _handler(self) -> type[QuietHandler]:
        odd = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:  # noqa: N802 - the name http.server looks for
                length = int(self.headers.get("Content-Length") or 0)
                sent = self.rfile.read(length)
                scope = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/", self.headers.get("Authorization", ""))
                service = scope[1] if scope else ""
                target = self.headers.get("X-Amz-Target", "")
                operation = target.rpartition(".")[2] or (parse_qs(sent.decode("latin-1")).get("Action") or [""])[0]
                odd.asked.append(f"{service}:{operation or self.command}")
                self.say(odd.choose(service, operation or self.command), is_json=bool(target))

            do_GET = do_HEAD = do_PUT = do_POST  # noqa: N815 - the names http.server looks for

            def say(self, answer: Answer, *, is_json: bool) -> None:
                time.sleep(answer.after_seconds)
                if answer.body is not None:
                    body = answer.body
                elif is_json:
                    body = json.dumps({"__type": answer.code, "message": answer.message}).encode()
                else:
                    error = f"<Code>{answer.code}</Code><Message>{answer.message}</Message>"
                    body = f"<ErrorResponse><Error>{error}</Error>{error}</ErrorResponse>".encode()
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        return Handler
