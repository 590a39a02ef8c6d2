"""What a user is promised of `--reply module:function`: any kind of function works, and a wrong one is named."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from voice_client.errors import BadInputError
from voice_client.replies import Exchange, ReplyError, chosen_reply
from voice_client.replies.function import function_reply

AGENT = """
import threading
from collections.abc import Iterator

seen = []

def text(turn): return f"You said {turn}."
def with_history(turn, history): return f"{len(history)} {history[0].user} {history[0].reply}"
def pieces(turn):
    for word in turn.split():
        seen.append(threading.current_thread().name)
        yield word + " "
async def later(turn): return "later " + turn
async def streamed(turn):
    try:
        for word in turn.split(): yield word
    finally:
        seen.append("closed")
def gives_coroutine(turn): return later(turn)
def gives_async_iterator(turn): return streamed(turn)
def endless(turn):
    while True:
        seen.append("piece")
        yield "on "
def broken(turn): raise ValueError("the secret words " + turn)
def number(turn): return 7
def leaves(turn): raise SystemExit(3)
class Agent:
    def answer(self, turn): return "from a method"
agent = Agent()
none = None
def nothing_taken(): return ""
"""


@pytest.fixture(autouse=True)
def agent_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "broken_agent.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("my_agent", "broken_agent"):
        sys.modules.pop(name, None)


async def said(name: str, turn: str = "good morning", history: tuple[Exchange, ...] = ()) -> list[str]:
    async with asyncio.timeout(20):
        return [piece async for piece in function_reply(f"my_agent:{name}")(turn, history)]


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("text", ["You said good morning."]),
        ("pieces", ["good ", "morning "]),
        ("later", ["later good morning"]),
        ("streamed", ["good", "morning"]),
        ("gives_coroutine", ["later good morning"]),
        ("gives_async_iterator", ["good", "morning"]),
        ("agent.answer", ["from a method"]),
    ],
)
async def test_any_kind_of_function_replies(name: str, pieces: list[str]) -> None:
    assert await said(name) == pieces


async def test_a_function_of_two_arguments_is_given_the_history() -> None:
    assert await said("with_history", history=(Exchange("hello", "hi"),)) == ["1 hello hi"]


async def test_a_plain_function_runs_in_a_thread_and_ends_when_nobody_listens() -> None:
    reply = function_reply("my_agent:endless")("on", ())
    assert await anext(reply) == "on "
    await reply.aclose()  # type: ignore[attr-defined]

    import my_agent  # type: ignore[import-not-found]

    end = time.monotonic() + 20
    while any(thread.name == "voice-reply" for thread in threading.enumerate()):
        assert time.monotonic() < end, "the thread goes on"
        await asyncio.sleep(0.01)
    assert len(my_agent.seen) < 100, "it did not run away"


async def test_what_is_no_text_is_an_error_of_the_reply() -> None:
    with pytest.raises(ReplyError, match="my_agent:number gave int instead of text"):
        await said("number")


async def test_an_error_of_the_function_comes_through() -> None:
    with pytest.raises(ValueError, match="secret"):
        await said("broken")


async def test_a_function_that_wants_to_end_the_program_ends_its_reply() -> None:
    with pytest.raises(ReplyError, match="wanted to end the program"):
        await said("leaves")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("my_agent", "no reply 'my_agent'"),
        (":text", "not of the form module:function"),
        ("no_such_agent:text", "No module named 'no_such_agent'"),
        ("broken_agent:text", "cannot be loaded: ZeroDivisionError"),
        ("my_agent:nowhere", "has no function nowhere"),
        ("my_agent:none", "has no function none"),
        ("my_agent:nothing_taken", "must take the turn"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(name: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        chosen_reply(name, {})
