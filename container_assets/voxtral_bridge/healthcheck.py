"""Docker's HEALTHCHECK: exit 0 when the bridge's `/ping` answers 200, 1 otherwise."""

import http.client
import os
import sys


def main() -> int:
    """Ask `/ping` on loopback once; the image may have no curl."""
    port = os.environ.get("BRIDGE_PORT") or os.environ.get("SAGEMAKER_BIND_TO_PORT") or "8080"
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=2.0)
    try:
        connection.request("GET", "/ping")
        return 0 if connection.getresponse().status == http.HTTPStatus.OK else 1
    except (OSError, http.client.HTTPException) as error:
        sys.stderr.write(f"/ping on port {port} did not answer: {error}\n")
        return 1
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
