"""What a user is promised of a chat endpoint: words as they come, and every failure said, without the key."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from voice_client.errors import BadInputError
from voice_client.replies import Exchange, ReplyError, chosen_reply, echo
from voice_client.replies import chat as chat_module
from voice_client.replies.chat import SPOKEN_STYLE, ChatEndpoint

KEY = "sk-not-a-real-key"


@dataclass
class ChatServer:
    """A server that speaks the chat-completions protocol, and remembers what it was asked."""

    port: int
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    behave: Callable[[BaseHTTPRequestHandler], None] = lambda _: None
    written: list[float] = field(default_factory=list)

    def endpoint(self, **changes: Any) -> ChatEndpoint:
        return ChatEndpoint(f"http://127.0.0.1:{self.port}/v1", "tiny", KEY, **changes)


def events(handler: BaseHTTPRequestHandler, *data: Any, done: bool = True) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.end_headers()
    for piece in data:
        line = piece if isinstance(piece, str) else json.dumps(piece)
        handler.wfile.write(f": a comment\r\ndata: {line}\r\n\r\n".encode())
        handler.wfile.flush()
    if done:
        handler.wfile.write(b"data: [DONE]\n\n")


def delta(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


def answers(status: int, body: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.wfile.write(body.encode())

    return behave


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Promise more than comes."""
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    line = f"data: {json.dumps(delta('Yes'))}\n\n"
    handler.wfile.write(f"{len(line):x}\r\n{line}\r\n".encode())
    handler.close_connection = True


@pytest.fixture
def server() -> Iterator[ChatServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            chat.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            chat.keys.append(self.headers["authorization"])
            chat.behave(self)

        def log_message(self, *_: Any) -> None:
            return

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    chat = ChatServer(running.server_address[1])
    thread = threading.Thread(target=lambda: running.serve_forever(poll_interval=0.02))
    thread.start()
    yield chat
    running.shutdown()
    running.server_close()
    thread.join()


async def reply(endpoint: ChatEndpoint, turn: str = "Hello?", history: tuple[Exchange, ...] = ()) -> list[str]:
    async with asyncio.timeout(20):
        return [piece async for piece in endpoint(turn, history)]


async def test_words_come_as_the_model_makes_them(server: ChatServer) -> None:
    waits = threading.Event()

    def behave(handler: BaseHTTPRequestHandler) -> None:
        events(handler, {"choices": [{"delta": {"role": "assistant"}}]}, delta("Good "), done=False)
        assert waits.wait(20)
        handler.wfile.write(f"data: {json.dumps(delta('day.'))}\n\n".encode())
        usage = {"choices": [], "usage": {"total_tokens": 9}}
        handler.wfile.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())

    server.behave = behave
    pieces = server.endpoint()("Hello?", ())
    async with asyncio.timeout(20):
        assert await anext(pieces) == "Good ", "before the reply is complete"
        waits.set()
        assert [piece async for piece in pieces] == ["day."]


async def test_the_model_is_told_what_was_said_and_heard(server: ChatServer) -> None:
    server.behave = lambda handler: events(handler, delta("Yes.", finish_reason="stop"), done=False)

    heard = (Exchange("One?", "One."), Exchange("Two?", ""))
    assert await reply(server.endpoint(), "Three?", heard) == ["Yes."]

    (request,) = server.requests
    assert (request["model"], request["stream"]) == ("tiny", True)
    assert request["messages"] == [
        {"role": "system", "content": SPOKEN_STYLE},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "One."},
        {"role": "user", "content": "Two?"},
        {"role": "user", "content": "Three?"},
    ]
    assert server.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    ("behave", "said", "retryable"),
    [
        (answers(401, '{"error": {"message": "bad key"}}'), "status 401: bad key. Check VOICE_CHAT_API_KEY", False),
        (answers(404, '{"error": "model tiny not found"}'), "status 404: model tiny not found", False),
        (answers(429, "slow down"), "status 429: slow down", True),
        (answers(503, ""), "status 503. Look into the server's log", True),
        (lambda handler: events(handler, delta("Yes"), done=False), "broke off in the middle", False),
        (lambda handler: events(handler, {"error": {"message": "no memory"}}), "middle of the reply: no memory", False),
        (lambda handler: events(handler, "{nonsense"), "no JSON", False),
        (lambda handler: events(handler, "[]"), "no JSON object", False),
        (answers(200, "<html>welcome</html>"), "answered with something, no events. Check VOICE_CHAT_URL", False),
        (answers(200, "x" * 3_000_000), "a line of more than 1048576 bytes, which is no reply", False),
        (answers(500, "y" * 3_000_000), f"status 500: {'y' * 300}. Look", True),
        (answers(401, f"no such key: {KEY}"), "status 401: no such key: ***", False),
        (answers(403, json.dumps({"error": f"{KEY} is blocked"})), "status 403: *** is blocked", False),
        (cut, "broke off in the middle of the reply: peer closed", True),
    ],
)
async def test_every_failure_is_said(server: ChatServer, behave: Any, said: str, retryable: bool) -> None:
    server.behave = behave
    with pytest.raises(ReplyError) as caught:
        await reply(server.endpoint())

    assert said in str(caught.value)
    assert f"127.0.0.1:{server.port}" in str(caught.value)
    assert caught.value.retryable is retryable
    assert KEY not in str(caught.value) + repr(server.endpoint())


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ReplyError, match=r"127\.0\.0\.1:9 cannot be reached.*VOICE_CHAT_URL"):
        await reply(ChatEndpoint("http://127.0.0.1:9/v1", "tiny"))


async def test_a_server_that_says_nothing_but_that_it_lives_is_left(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_module, "_SILENCE_SECONDS", 0.3)
    left = threading.Event()

    def behave(handler: BaseHTTPRequestHandler) -> None:
        events(handler, done=False)
        try:
            while not left.wait(0.02):
                handler.wfile.write(b": still here\n\n")
        except OSError:
            left.set()

    server.behave = behave
    with pytest.raises(ReplyError, match="did not answer in time"):
        await reply(server.endpoint())
    assert await asyncio.to_thread(left.wait, 20)


async def test_words_may_hold_any_character_and_come_in_any_pieces(server: ChatServer) -> None:
    text = "Zeile\u2028neu \x85 \x0b \x1c äöü 你好"

    def behave(handler: BaseHTTPRequestHandler) -> None:
        events(handler, done=False)
        whole = f"data: {json.dumps(delta(text), ensure_ascii=False)}\r\n\r\ndata: [DONE]\r\n\r\n".encode()
        for at in range(len(whole)):
            handler.wfile.write(whole[at : at + 1])

    server.behave = behave
    assert await reply(server.endpoint()) == [text]


async def test_what_is_meant_for_this_machine_does_not_go_through_a_proxy(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.behave = lambda handler: events(handler, delta("Yes."))

    assert await reply(server.endpoint()) == ["Yes."]


async def test_a_proxy_that_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://127.0.0.1:9")

    with pytest.raises(ReplyError, match=r"chat\.example.*proxy or certificate settings.*Check HTTP_PROXY"):
        await reply(ChatEndpoint("https://chat.example/v1", "tiny"))


async def test_an_interrupted_reply_ends_its_request(server: ChatServer) -> None:
    broken = threading.Event()

    def behave(handler: BaseHTTPRequestHandler) -> None:
        events(handler, delta("on "), done=False)
        end = time.monotonic() + 20
        try:
            while time.monotonic() < end:
                handler.wfile.write(f"data: {json.dumps(delta('and on '))}\n\n".encode())
                time.sleep(0.01)
        except OSError:
            broken.set()

    server.behave = behave
    pieces = server.endpoint()("Hello?", ())
    assert await anext(pieces) == "on "
    await pieces.aclose()

    assert await asyncio.to_thread(broken.wait, 20), "the server still writes"


def test_the_environment_chooses_the_plug() -> None:
    local = {"VOICE_CHAT_URL": "http://127.0.0.1:11434/v1", "VOICE_CHAT_MODEL": "llama3.2"}

    assert chosen_reply(None, {}) == ("echo", echo)
    assert chosen_reply("echo", local) == ("echo", echo)
    shown, plug = chosen_reply(None, local)
    assert shown == "llama3.2 at 127.0.0.1:11434"
    assert isinstance(plug, ChatEndpoint)


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({}, "VOICE_CHAT_URL is not set"),
        ({"VOICE_CHAT_URL": "http://127.0.0.1/v1"}, "VOICE_CHAT_MODEL is not"),
        ({"VOICE_CHAT_URL": "127.0.0.1", "VOICE_CHAT_MODEL": "m"}, "no http"),
        (
            {"VOICE_CHAT_URL": "http://chat.example/v1", "VOICE_CHAT_MODEL": "m", "VOICE_CHAT_API_KEY": KEY},
            "unencrypted",
        ),
        ({"VOICE_CHAT_URL": "http://[::1/v1", "VOICE_CHAT_MODEL": "m"}, "no http"),
        ({"VOICE_CHAT_URL": "http://127.0.0.1:99999/v1", "VOICE_CHAT_MODEL": "m"}, "no http"),
        ({"VOICE_CHAT_URL": "http://a:b@127.0.0.1/v1", "VOICE_CHAT_MODEL": "m"}, "holds a user name"),
        (
            {"VOICE_CHAT_URL": "https://chat.example/v1?v=2", "VOICE_CHAT_MODEL": "m", "VOICE_CHAT_API_KEY": "a b"},
            "query or a fragment.*VOICE_CHAT_API_KEY holds a character",
        ),
        (
            {"VOICE_CHAT_URL": "https://chat.example", "VOICE_CHAT_MODEL": "m", "VOICE_CHAT_API_KEY": "clé"},
            "VOICE_CHAT_API_KEY holds a character",
        ),
    ],
)
def test_a_wrong_environment_is_named(environment: dict[str, str], problem: str) -> None:
    with pytest.raises(BadInputError, match=problem) as caught:
        chosen_reply("chat", environment)
    assert environment.get("VOICE_CHAT_API_KEY", "no key") not in str(caught.value)


def test_a_key_with_a_line_break_at_its_end_is_a_key() -> None:
    chosen = ChatEndpoint.from_environment(
        {"VOICE_CHAT_URL": "https://chat.example", "VOICE_CHAT_MODEL": "m", "VOICE_CHAT_API_KEY": f"{KEY}\n"}
    )
    assert chosen is not None
    assert chosen.key == KEY
