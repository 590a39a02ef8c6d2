"""The `voice` command."""

from typing import TYPE_CHECKING, Any

from voice_client.cli.start_up import leave_at_ctrl_c

if TYPE_CHECKING:
    from voice_client.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; the process ends with the exit code of the command."""
    leave_at_ctrl_c()
    from voice_client.cli.commands import run_command_line  # noqa: PLC0415

    run_command_line()


def __getattr__(name: str) -> Any:
    """Load the commands when they are asked for."""
    if name == "app":
        from voice_client.cli.commands import app  # noqa: PLC0415

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
