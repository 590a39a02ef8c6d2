"""Docker's HEALTHCHECK: exit 0 when the bridge's `/ping` answers 200, 1 otherwise; the image may have no curl."""

import http.client
import os
import sys

if __name__ == "__main__":
    port = os.environ.get("BRIDGE_PORT") or os.environ.get("SAGEMAKER_BIND_TO_PORT") or "8080"
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=2.0)
    try:
        connection.request("GET", "/ping")
        sys.exit(connection.getresponse().status != http.HTTPStatus.OK)
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"/ping on port {port} did not answer: {error}")
