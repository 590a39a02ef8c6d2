"""What can go wrong in the control plane, apart from the errors its API answers with."""


class ControlPlaneError(Exception):
    """Base of every error this package raises."""


class PortTakenError(ControlPlaneError):
    """Something else listens on the port asked for."""

    def __init__(self, port: int) -> None:
        super().__init__(
            f"The control plane cannot listen on 127.0.0.1:{port}: the port is taken. "
            "Stop the other local cloud, or ask for another port (0 takes any free one)."
        )


class ControlPlaneStartError(ControlPlaneError):
    """The server was started and did not answer in time, or is used in a way it does not support."""


class ResourceError(ControlPlaneError):
    """A stack's resource could not be created, updated or deleted; the message is the stack event's reason."""

    def __init__(self, reason: str, *, left: object = None) -> None:
        """`left` is the StackResource that exists although its creation failed, for the roll-back to delete."""
        super().__init__(reason)
        self.left = left


class StateError(ControlPlaneError):
    """A saved state cannot be used; the message names the file and says what to do."""
