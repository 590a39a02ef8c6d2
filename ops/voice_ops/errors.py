"""What goes wrong before or while an operator's question is answered."""


class OpsError(Exception):
    """Base of this package's errors: what happened, where, and what to do next."""


class SynthesisError(OpsError):
    """The app did not synthesize."""


class ScannerError(OpsError):
    """A scanner could not be run, or did not answer as expected."""
