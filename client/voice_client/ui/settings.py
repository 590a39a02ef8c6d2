"""Limits and time-outs of the web page, each with its default and reason. Times in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageSettings:
    """Limits of one page."""

    largest_upload: int = 1024**3
    """Bytes of a file to transcribe: half a day of compressed speech. It lies in a temporary folder meanwhile."""
    largest_message: int = 1024 * 1024
    """Bytes of one message from the page; the page sends pieces of 256 KiB, and sound in blocks of 20 ms."""
    kept_sound: float = 30.0
    """Sound of a microphone that waits while its endpoint is lost; what is older is dropped."""
    retry_every: float = 2.0
    """A lost endpoint is tried again so often, for as long as the page is open and wants it: a restarting container
    takes seconds, a deployment minutes, and the user sees the message all the while."""
    summary: float = 300.0
    """A summary from its request to its last word: a model on a CPU reads a long transcript for minutes. One that does
    not stop is stopped there; the user may cancel it before."""
    ping_every: float = 20.0
    """A browser that went away without a word (a closed laptop) is noticed by a ping that is not answered."""
    ping_answer: float = 20.0
    shutdown: float = 3.0
    """From Ctrl-C until open connections are cut."""
