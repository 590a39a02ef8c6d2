"""What ends a staging: each says what happened, to which file, and what to do."""


class StagingError(Exception):
    """Base: the weights are not complete."""


class HubError(StagingError):
    """The hub does not have it, does not give it, or does not answer."""


class WrongContentError(StagingError):
    """A file differs from what the hub says of it, several times in a row."""


class SettingsMissingError(StagingError):
    """The job was started without what it must know."""
