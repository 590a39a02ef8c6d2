"""One session: a client's socket joined to one of vLLM's, and brought to an end in order whatever happens."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.frames import CloseCode

from voxtral_bridge.client_socket import ClientSocket, Message
from voxtral_bridge.errors import ClientGoneError
from voxtral_bridge.event_log import log_event
from voxtral_bridge.realtime import FINAL_COMMIT, GenerationTracker, error_event
from voxtral_bridge.settings import BridgeSettings


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ends. An ending with a message is told to the client as an `error` event of code `reason`."""

    reason: str
    close_code: int
    side: str
    """Who failed: `client`, `bridge` (a limit of ours) or `vllm`."""
    message: str = ""


COMPLETED = Ending("completed", 1000, "client")
CLIENT_GONE = Ending("client_gone", 1006, "client")
CLIENT_FAILED = Ending("client_protocol_error", 1006, "client")
SHUTTING_DOWN = Ending("shutting_down", 1012, "bridge", "the container stops; open a new session")

MIN_UNANSWERED_AUDIO = 1.0
"""Seconds of audio without an answer before silence counts as a stall: vLLM waits for whole steps of 80 ms."""


def _vllm_failure(reason: str, message: str) -> Ending:
    # 1011, internal error: the client did nothing wrong, and another try can help.
    return Ending(reason, 1011, "vllm", message)


async def refuse(client: ClientSocket, ending: Ending) -> None:
    """Tell a client why it gets no session, and close."""
    log_event("session_error", session="", code=ending.reason, side=ending.side)
    with suppress(ClientGoneError):
        await client.send(Message(error_event(ending.reason, ending.message), is_text=True))
    await client.close(ending.close_code, ending.reason)


class Session:
    """Relays both directions; `run` returns when both sides are closed."""

    def __init__(self, client: ClientSocket, settings: BridgeSettings) -> None:
        self.id = secrets.token_hex(8)
        self._client = client
        self._settings = settings
        self._tracker = GenerationTracker()
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._started = self._last_input = self._last_output = self._generation_started = self._now()
        self._waiting_since: float | None = None
        self._answered_audio = 0.0
        self._sending_since: float | None = None
        self._telling_since: float | None = None
        self._shutdown_at: float | None = None
        self._first_delta_seen = False
        self._counts = {"bytes_in": 0, "bytes_out": 0, "messages_in": 0, "messages_out": 0}
        self._audio_seconds = 0.0

    async def run(self, sessions: int) -> None:
        """Serve the client from its handshake to the end; `sessions` is the number open now, for the log."""
        log_event("session_opened", session=self.id, path=urlsplit(self._client.path).path, sessions=sessions)
        ending = Ending("internal_error", 1011, "bridge")
        try:
            ending = await self._serve()
        except asyncio.CancelledError:
            ending = SHUTTING_DOWN
            raise
        finally:
            await self._client.close(ending.close_code, ending.reason)
            log_event(
                "session_closed",
                session=self.id,
                reason=ending.reason,
                close_code=ending.close_code,
                seconds=round(self._now() - self._started, 3),
                audio_seconds=round(self._audio_seconds + self._tracker.pending_audio, 3),
                **self._counts,
            )

    async def _serve(self) -> Ending:
        try:
            async with self._upstream() as upstream, asyncio.TaskGroup() as tasks:
                output = tasks.create_task(self._relay_output(upstream))
                others = [tasks.create_task(self._relay_input(upstream)), tasks.create_task(self._watch())]
                ending = await self._ending
                for task in others:
                    task.cancel()
                ending = await self._finish(upstream, output, ending) or ending
                if ending is COMPLETED and self._client.gone:
                    ending = CLIENT_GONE  # it ended its input, but did not stay for the output
                await self._report(ending)
                with suppress(TimeoutError):
                    # Twice the handshake's own time: first the Close must get out, which a deaf server prevents.
                    async with asyncio.timeout(2 * self._settings.close_timeout):
                        await upstream.close()
                        await asyncio.wait({output})
                output.cancel()  # when the client does not read, the reader of vLLM waits for it
        except (OSError, WebSocketException) as error:
            ending = _vllm_failure("upstream_unavailable", f"vLLM opened no session: {error}")
            await self._report(ending)
        return ending

    async def _report(self, ending: Ending) -> None:
        if not ending.message:
            return
        log_event("session_error", session=self.id, code=ending.reason, side=ending.side)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.close_timeout):
                await self._tell(error_event(ending.reason, ending.message))

    @asynccontextmanager
    async def _upstream(self) -> AsyncIterator[ClientConnection]:
        query = urlsplit(self._client.path).query
        upstream = await connect(
            f"ws://127.0.0.1:{self._settings.vllm_port}/v1/realtime" + (f"?{query}" if query else ""),
            proxy=None,
            compression=None,  # on loopback it costs more than it saves
            max_size=self._settings.max_message_bytes,
            max_queue=4,
            open_timeout=self._settings.connect_timeout,
            ping_interval=self._settings.keepalive,
            ping_timeout=self._settings.keepalive,
            close_timeout=self._settings.close_timeout,
        )
        try:
            yield upstream
        finally:
            upstream.transport.abort()  # closed in order before, unless this session was cancelled

    async def _relay_input(self, upstream: ClientConnection) -> None:
        limit = self._settings.max_audio
        while (message := await self._client.receive()) is not None:
            self._last_input = self._now()
            self._counts["messages_in"] += 1
            self._counts["bytes_in"] += len(message.data)
            try:
                text = message.data.decode()
            except UnicodeDecodeError as error:
                await self._tell(error_event("invalid_frame", f"a frame is not UTF-8 text: {error.reason}"))
                continue
            self._tracker.observe_input(text)
            if limit is not None and self._tracker.pending_audio > limit:
                what = f"one generation takes {limit:.1f} s of audio; end it with a final commit, then start the next"
                self._settle(Ending("session_length_limit", 1008, "bridge", what))
                return
            self._note_generation()
            self._waiting_since = self._waiting_since or self._last_input
            self._sending_since = self._last_input
            try:
                await upstream.send(message.data, text=True)
            except ConnectionClosed:
                return  # the reader of that socket tells why
            self._sending_since = None
        self._settle(COMPLETED if self._client.client_closed else CLIENT_FAILED if self._client.failed else CLIENT_GONE)

    async def _relay_output(self, upstream: ClientConnection) -> None:
        try:
            while True:
                message = await upstream.recv()
                self._last_output = self._now()
                self._note_output(self._tracker.observe_output(message))
                is_text = isinstance(message, str)
                data = message.encode() if isinstance(message, str) else message
                self._counts["messages_out"] += 1
                self._counts["bytes_out"] += len(data)
                self._telling_since = self._last_output
                await self._tell(data, is_text=is_text)
                self._telling_since = None
                self._note_generation()
        except ConnectionClosed as closed:
            self._settle(_upstream_closed(closed))

    def _note_output(self, kind: str) -> None:
        if kind.startswith("transcription."):
            self._answered_audio = self._tracker.pending_audio
            self._waiting_since = None if self._tracker.final_commit_due else self._last_output
        since_start = round(self._now() - self._generation_started, 3)
        if kind == "transcription.delta" and not self._first_delta_seen:
            self._first_delta_seen = True
            log_event("session_first_delta", session=self.id, seconds=since_start)
        elif kind == "transcription.done":
            audio = self._tracker.take_audio()
            self._audio_seconds += audio
            self._answered_audio = 0.0
            log_event("session_done", session=self.id, seconds=since_start, audio_seconds=round(audio, 3))
        elif kind == "error":
            log_event("session_error", session=self.id, code=self._tracker.last_error_code, side="vllm")

    async def _tell(self, data: bytes, *, is_text: bool = True) -> None:
        """Send to the client; nobody is left to tell once it has gone, and the session is finished all the same."""
        try:
            await self._client.send(Message(data, is_text))
        except ClientGoneError:
            self._settle(CLIENT_GONE)

    def _note_generation(self) -> None:
        if not self._tracker.generating:
            self._at_rest.set()
        elif self._at_rest.is_set():
            self._at_rest.clear()
            self._first_delta_seen = False
            self._generation_started = self._now()

    async def _watch(self) -> None:
        """End the session when a limit of time is reached, or the container stops."""
        settings = self._settings
        tick = min(1.0, settings.idle_timeout / 4, settings.stall_timeout / 4)
        while (ending := self._limit_reached()) is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(tick):
                    await self._client.shutdown_requested.wait()
                    await self._at_rest.wait()
        self._settle(ending)

    def _limit_reached(self) -> Ending | None:
        settings, now = self._settings, self._now()
        if now - max(self._last_input, self._last_output) >= settings.idle_timeout:
            text = f"no message for {settings.idle_timeout:g} s; open a new session to go on"
            return Ending("idle_timeout", 1008, "bridge", text)
        too_old = now - settings.stall_timeout
        if self._telling_since is not None:
            if self._telling_since <= too_old:
                text = f"the client has read nothing for {settings.stall_timeout:g} s"
                return Ending("client_stalled", 1008, "client", text)
        elif self._sending_since is not None and self._sending_since <= too_old:
            # A ping would not tell: it waits behind the message that vLLM does not take.
            return _vllm_failure("upstream_stalled", f"vLLM has taken no input for {settings.stall_timeout:g} s")
        elif self._waiting_since is not None and self._waiting_since <= too_old and self._output_is_owed():
            text = f"vLLM owes output and has said nothing for {settings.stall_timeout:g} s"
            return _vllm_failure("upstream_stalled", text)
        if self._client.shutdown_requested.is_set():
            self._shutdown_at = self._shutdown_at or now + settings.shutdown_drain
            if now >= self._shutdown_at or not self._tracker.generating:
                return SHUTTING_DOWN
        return None

    def _output_is_owed(self) -> bool:
        tracker = self._tracker
        unanswered = tracker.pending_audio - self._answered_audio
        return tracker.generating and (unanswered >= MIN_UNANSWERED_AUDIO or not tracker.final_commit_due)

    async def _finish(self, upstream: ClientConnection, output: "asyncio.Task[None]", ending: Ending) -> Ending | None:
        """Bring the generation that runs to its end, relaying what comes; return what went wrong on vLLM's side."""
        started = self._last_output = self._now()
        if self._tracker.final_commit_due and self._sending_since is None:
            # Also when vLLM looks dead: a request that is never finished would stay in the engine for good.
            with suppress(ConnectionClosed, TimeoutError):
                async with asyncio.timeout(self._settings.close_timeout):
                    await upstream.send(FINAL_COMMIT, text=True)
        if ending.side == "vllm":
            return None
        rest = asyncio.create_task(self._at_rest.wait())
        try:
            while not (output.done() or rest.done()):
                # While somebody listens, only silence ends the wait: a long backlog may take its time.
                since = started if self._client.gone else self._last_output
                left = since + self._settings.drain_timeout - self._now()
                if left <= 0:
                    text = f"vLLM did not finish the generation: no output for {self._settings.drain_timeout:g} s"
                    return _vllm_failure("drain_timeout", text)
                await asyncio.wait({output, rest}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rest.cancel()
        if self._tracker.generating:
            return _vllm_failure("upstream_closed", "vLLM ended before the generation was finished")
        return None

    def _settle(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _upstream_closed(closed: ConnectionClosed) -> Ending:
    if closed.rcvd is not None:
        return _vllm_failure("upstream_closed", f"vLLM closed the session with code {closed.rcvd.code}")
    if closed.sent is not None and closed.sent.code == CloseCode.MESSAGE_TOO_BIG:
        return _vllm_failure("upstream_message_too_big", "vLLM sent a message beyond the bridge's limit")
    if closed.sent is not None and closed.sent.code == CloseCode.INTERNAL_ERROR:  # by the keepalive of websockets
        return _vllm_failure("upstream_unresponsive", "vLLM answers no ping any more")
    return _vllm_failure("upstream_died", "the connection to vLLM broke without a closing handshake")
