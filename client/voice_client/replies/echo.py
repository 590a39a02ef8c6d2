"""Says what was heard: shows the latency of ear and voice alone."""

from collections.abc import AsyncGenerator, Sequence

from voice_client.replies.reply import Exchange


async def echo(turn: str, _history: Sequence[Exchange]) -> AsyncGenerator[str]:
    """Reply with the turn itself."""
    yield turn
