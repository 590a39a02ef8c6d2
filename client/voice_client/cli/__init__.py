"""The `voice` command."""

from voice_client.cli.app import app, main

__all__ = ["app", "main"]
