"""A Python function of the user as reply plug: plain or async, returning a text or iterating over pieces of one."""

import asyncio
import importlib
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from voice_client.errors import BadInputError
from voice_client.replies.reply import Exchange, Reply, ReplyError

_PIECES_AHEAD = 64
"""Pieces a blocking iterator may be ahead of the voice; then it waits."""


def function_reply(name: str) -> Reply:
    """Return the plug of a function given as `module:function`.

    The module is looked for where Python looks, and in the working folder first. The function takes the turn, or the
    turn and the history (a sequence of `Exchange`); it returns a `str`, an iterable of `str`, an awaitable of either,
    or an async iterator of `str`. A plain function runs in a thread, so that it may block.

    Raises:
        BadInputError: there is no such module or function, or it cannot be called so.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise BadInputError(f"--reply {name} is not of the form module:function")
    module = _imported(module_name, name)
    function: Any = module
    for part in attribute.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise BadInputError(f"--reply {name}: the module {module_name} has no function {attribute}")
    with_history = _takes_history(function, name)

    async def reply(turn: str, history: Sequence[Exchange]) -> AsyncGenerator[str]:
        arguments: tuple[Any, ...] = (turn, history) if with_history else (turn,)
        async for piece in _pieces(function, arguments):
            if not isinstance(piece, str):
                raise ReplyError(f"the reply function {name} gave {type(piece).__name__} instead of text")
            yield piece

    return reply


def _imported(module_name: str, name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise BadInputError(f"--reply {name}: {error}") from error
    except Exception as error:
        raise BadInputError(
            f"--reply {name}: the module {module_name} cannot be loaded: {type(error).__name__}: {error}",
            advice="VOICE_DEBUG=1 shows where",
        ) from error


def _takes_history(function: Callable[..., Any], name: str) -> bool:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function written in C
        return False
    for count in (2, 1):
        try:
            signature.bind(*(None,) * count)
        except TypeError:
            continue
        return count == 2
    raise BadInputError(f"--reply {name}: the function must take the turn, or the turn and the history")


async def _pieces(function: Callable[..., Any], arguments: tuple[Any, ...]) -> AsyncGenerator[Any]:
    if inspect.iscoroutinefunction(function):
        given = await function(*arguments)
    elif inspect.isasyncgenfunction(function):
        given = function(*arguments)
    else:
        async for piece in _from_thread(function, arguments):
            yield piece
        return
    async for piece in _of(given):
        yield piece


async def _of(given: Any) -> AsyncGenerator[Any]:
    """Iterate over what an async function gave."""
    if inspect.isawaitable(given):
        given = await given
    if isinstance(given, AsyncIterator):
        try:
            async for piece in given:
                yield piece
        finally:
            if (close := getattr(given, "aclose", None)) is not None:
                await close()
    elif isinstance(given, str) or not isinstance(given, Iterable):
        yield given
    else:
        async for piece in _from_thread(lambda: given, ()):
            yield piece


async def _from_thread(function: Callable[..., Any], arguments: tuple[Any, ...]) -> AsyncGenerator[Any]:
    """Run a plain function, and the iterator it returns, in a daemon thread of its own.

    A reply that is interrupted is left alone in its thread: it ends at its next piece, and holds up nothing.
    """
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    room = threading.Semaphore(_PIECES_AHEAD)
    left = threading.Event()

    def post(kind: str, value: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(items.put_nowait, (kind, value))

    def work() -> None:
        try:
            given = function(*arguments)
            if inspect.isawaitable(given) or isinstance(given, AsyncIterator):
                post("async", given)
                return
            for piece in [given] if isinstance(given, str) or not isinstance(given, Iterable) else given:
                room.acquire()
                if left.is_set():
                    return
                post("piece", piece)
        except SystemExit:  # in a thread it would end nothing, and in the conversation all of it
            post("error", ReplyError("the reply function wanted to end the program"))
        except Exception as error:  # noqa: BLE001 - raised again in the conversation
            post("error", error)
        else:
            post("end", None)

    threading.Thread(target=work, name="voice-reply", daemon=True).start()
    try:
        while True:
            kind, value = await items.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            if kind == "async":
                async for piece in _of(value):
                    yield piece
                return
            room.release()
            yield value
    finally:
        left.set()
        room.release()
