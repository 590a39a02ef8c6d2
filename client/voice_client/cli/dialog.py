"""What was said in a conversation, turn by turn."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voice_client.errors import VoiceError
from voice_client.session.conversation_events import (
    ConversationEvent,
    Interrupted,
    ReplyDone,
    ReplyText,
    Resumed,
    TurnFailed,
    UserTurn,
)
from voice_client.session.conversation_metrics import TurnMetrics


@dataclass(slots=True)
class DialogTurn:
    """One turn and its answer."""

    turn: UserTurn
    reply: str = field(default="", repr=False)
    """What was made of the reply."""
    heard: str | None = field(default=None, repr=False)
    """What was heard of an interrupted one."""
    metrics: TurnMetrics | None = None
    error: VoiceError | None = None

    def fields(self) -> dict[str, Any]:
        """Return it for JSON."""
        metrics = dataclasses.asdict(self.metrics) if self.metrics is not None else {}
        return {
            "turn": self.turn.turn,
            "start": round(self.turn.start, 3),
            "end": round(self.turn.end, 3),
            "text": self.turn.text,
            "reply": self.reply,
            "interrupted": self.heard is not None,
            "heard": self.reply if self.heard is None else self.heard,
            "error": self.error.message if self.error is not None else None,
            "metrics": {
                name: round(value, 3) if isinstance(value, float) else value
                for name, value in metrics.items()
                if name.endswith("_ms")
            },
        }


class Dialog:
    """The turns of a conversation in order.

    Args:
        output: the file that the voice is written to, None for the loudspeaker.
    """

    def __init__(self, output: Path | None) -> None:
        self.turns: list[DialogTurn] = []
        self.failure: VoiceError | None = None
        """The first failure of a reply or of the voice."""
        self._output = output

    def take(self, event: ConversationEvent) -> None:
        """Note an event."""
        match event:
            case UserTurn():
                self.turns.append(DialogTurn(event))
            case ReplyText(turn=turn, delta=delta):
                self.turns[turn].reply += delta
            case Interrupted(turn=turn, heard=heard):
                self.turns[turn].heard = heard
            case Resumed(turn=turn):
                self.turns[turn].reply, self.turns[turn].heard = "", None
            case TurnMetrics(turn=turn):
                self.turns[turn].metrics = event
            case TurnFailed(turn=turn, error=error):
                self.turns[turn].error = error
                self.failure = self.failure or error
            case _:
                return

    def said_by(self, event: ConversationEvent) -> str | None:
        """Return the whole reply when an event says that it is complete."""
        return event.text if isinstance(event, ReplyDone) and event.text else None

    def fields(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "turns": [turn.fields() for turn in self.turns],
            "output": str(self._output) if self._output is not None else None,
        }
