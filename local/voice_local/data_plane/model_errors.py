"""ModelError (424): what the client learns when the container is to blame, and where to read on."""

from collections.abc import Mapping
from dataclasses import dataclass

from voice_local.data_plane.errors import RequestRefusedError
from voice_local.identity import LocalIdentity


@dataclass(frozen=True, slots=True)
class ModelErrors:
    """Makes the ModelErrors of one endpoint."""

    endpoint_name: str
    identity: LocalIdentity

    def refused(self, status: int, original: str) -> RequestRefusedError:
        """The container answered with an HTTP status of its own; the words are SageMaker's."""
        side = "client" if 400 <= status < 500 else "server"
        return self.failed(
            f'Received {side} error ({status}) from primary with message "{original}".',
            {"OriginalStatusCode": status, "OriginalMessage": original},
        )

    def failed(self, message: str, details: Mapping[str, str | int] | None = None) -> RequestRefusedError:
        """The container did not answer as it must."""
        group = f"/aws/sagemaker/Endpoints/{self.endpoint_name}"
        arn = f"arn:aws:logs:{self.identity.region}:{self.identity.account_id}:log-group:{group}"
        hint = f"See the log group {group} in account {self.identity.account_id} for more information."
        return RequestRefusedError(424, "ModelError", f"{message} {hint}", {**(details or {}), "LogStreamArn": arn})
