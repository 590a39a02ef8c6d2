"""What a user is promised of the page's door: other sites and names are refused, and a password guards everything."""

from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from voice_client.ui import door
from voice_client.ui.door import COOKIE, Door

HERE = "http://127.0.0.1:6006"
PASSWORD = "open sesame"


def page() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    def front() -> str:
        return "the page"

    @app.post("/run")
    def run() -> str:
        return "done"

    @app.websocket("/voice/live/speak")
    async def speak(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")

    return app


@pytest.fixture
def visitor() -> TestClient:
    return TestClient(Door(page()), base_url=HERE)


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(door, "WRONG_PASSWORD_SECONDS", 0.01)
    return TestClient(Door(page(), password=PASSWORD), base_url=HERE, follow_redirects=False)


@pytest.mark.parametrize("host", ["127.0.0.1:6006", "localhost:6006", "LOCALHOST", "[::1]:6006"])
def test_this_machine_comes_in(visitor: TestClient, host: str) -> None:
    answer = visitor.get("/", headers={"host": host})

    assert answer.json() == "the page"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:6006", "", "127.0.0.1:6006.evil.example"])
def test_a_name_that_was_made_to_lead_here_is_refused(visitor: TestClient, host: str) -> None:
    assert visitor.get("/", headers={"host": host}).status_code == 403
    with pytest.raises(WebSocketDisconnect), visitor.websocket_connect("/voice/live/speak", headers={"host": host}):
        pytest.fail("it came in")


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:7007", "null"])
def test_another_page_can_neither_open_a_socket_nor_post(visitor: TestClient, origin: str) -> None:
    headers = {"origin": origin}

    assert visitor.post("/run", headers=headers).status_code == 403
    with pytest.raises(WebSocketDisconnect), visitor.websocket_connect("/voice/live/speak", headers=headers):
        pytest.fail("it came in")


def test_the_page_itself_opens_its_sockets(visitor: TestClient) -> None:
    with visitor.websocket_connect(f"ws{HERE[4:]}/voice/live/speak", headers={"origin": HERE}) as socket:
        assert socket.receive_text() == "hello"


def test_a_password_guards_the_page_and_its_sockets(guarded: TestClient) -> None:
    first = guarded.get("/")
    assert (first.status_code, first.headers["location"]) == (303, "/login")
    assert guarded.get("/anything").status_code == 403
    with pytest.raises(WebSocketDisconnect), guarded.websocket_connect("/voice/live/speak"):
        pytest.fail("it came in")

    assert guarded.post("/login", data={"password": "wrong"}).status_code == 401
    assert COOKIE not in guarded.cookies
    entered = guarded.post("/login", data={"password": PASSWORD})
    assert entered.status_code == 303
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert "samesite=strict" in entered.headers["set-cookie"].lower()

    assert guarded.get("/").json() == "the page"
    with guarded.websocket_connect(f"ws{HERE[4:]}/voice/live/speak") as socket:
        assert socket.receive_text() == "hello"


@pytest.mark.parametrize("cookie", ["", "guess", "\x00"])
def test_a_guessed_session_is_none(guarded: TestClient, cookie: str) -> None:
    assert guarded.get("/", headers={"cookie": f"{COOKIE}={cookie}"}).status_code == 303


def test_a_login_that_is_too_long_is_cut_off(guarded: TestClient) -> None:
    assert guarded.post("/login", data={"password": "x" * 10_000}).status_code == 413


def test_a_tunnel_s_name_is_let_in_when_it_is_known() -> None:
    behind: Any = Door(page(), password=PASSWORD)
    far = TestClient(behind, base_url="https://abc.example.live", follow_redirects=False)
    assert far.get("/").status_code == 403

    behind.admit("abc.example.live")
    assert far.get("/").status_code == 303
    entered = far.post("/login", data={"password": PASSWORD}, headers={"origin": "https://abc.example.live"})
    assert "Secure" in entered.headers["set-cookie"]
    assert far.get("/").json() == "the page"
