"""One HTTP and WebSocket server on loopback, as the real containers run theirs: FastAPI on uvicorn."""

import logging
import sys

import uvicorn
from fastapi import FastAPI

LOOPBACK = "127.0.0.1"
"""The real servers listen on every interface; a stand-in never leaves the machine, whatever `--host` says."""

GRACEFUL_SHUTDOWN_SECONDS = 3
"""How long SIGTERM waits for open streams before their tasks are cancelled; shorter than any stop grace period."""


def server_for(app: FastAPI, port: int) -> uvicorn.Server:
    """Return a server that listens on 127.0.0.1 and `port` once it is run.

    uvicorn's defaults are kept where they are the real servers' own: messages over 16 MiB are refused, a ping goes
    out every 20 s and must be answered within 20 s.
    """
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=LOOPBACK,
            port=port,
            log_level="warning",
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_SECONDS,
        )
    )


def log_to_stderr() -> None:
    """Send this process's log to stderr, where the container host collects it."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
