"""From what a user asks for to the plug."""

import os
from collections.abc import Mapping

from voice_client.errors import BadInputError
from voice_client.replies.chat import URL, ChatEndpoint
from voice_client.replies.echo import echo
from voice_client.replies.function import function_reply
from voice_client.replies.reply import Reply


def chosen_reply(name: str | None, environment: Mapping[str, str] = os.environ) -> tuple[str, Reply]:
    """Return a plug and what to call it before the user.

    Args:
        name: `echo`, `chat`, or `module:function`; None is the chat endpoint where one is configured, else the echo.
        environment: where the chat endpoint is configured.

    Raises:
        BadInputError: no such plug, or one that is not configured.
    """
    if name is not None and ":" in name:
        return name, function_reply(name)
    if name == "echo":
        return "echo", echo
    if name not in {None, "chat"}:
        raise BadInputError(f"there is no reply {name!r}", advice="Known are echo, chat and module:function")
    endpoint = ChatEndpoint.from_environment(environment)
    if endpoint is not None:
        return f"{endpoint.model} at {endpoint.host}", endpoint
    if name == "chat":
        raise BadInputError(f"no chat endpoint is configured: {URL} is not set")
    return "echo", echo
