"""What is said to a user's turn: an echo, a chat endpoint, or a function of yours; each streams its words."""

from voice_client.replies.choosing import chosen_reply
from voice_client.replies.echo import echo
from voice_client.replies.reply import Exchange, Reply, ReplyError

__all__ = ["Exchange", "Reply", "ReplyError", "chosen_reply", "echo"]
