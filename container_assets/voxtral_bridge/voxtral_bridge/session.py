"""One session: a client's socket joined to one of vLLM's, and brought to an end in order whatever happens."""

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from websockets.exceptions import WebSocketException
from websockets.frames import CloseCode

from voxtral_bridge.event_log import log_event
from voxtral_bridge.realtime import FINAL_COMMIT, GenerationTracker, error_event
from voxtral_bridge.settings import BridgeSettings
from voxtral_bridge.web_socket import ClientSocket, VllmSocket


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


async def refuse(client: ClientSocket, settings: BridgeSettings, ending: Ending) -> None:
    """Tell a client why it gets no session, and close."""
    client.on_message = lambda data, is_text: None
    log_event("session_error", session="", code=ending.reason, side=ending.side)
    client.send(error_event(ending.reason, ending.message))
    await client.close(ending.close_code, ending.reason, drain=settings.drain_timeout, limit=settings.close_timeout)


class Session:
    """Relays both directions; `run` returns when both sides are closed.

    The sockets call in with every message. All else that may end a session sets `changed`, at the latest the next
    `tick`; then `_until_ending` looks at everything anew.
    """

    def __init__(self, client: ClientSocket, settings: BridgeSettings) -> None:
        self.id = secrets.token_hex(8)
        self._client = client
        self._settings = settings
        self._changed = client.changed
        self._tracker = GenerationTracker()
        self._vllm: VllmSocket | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._taking_input = True
        self._listening = True
        self._too_long: Ending | None = None
        self._now = asyncio.get_running_loop().time
        self._started = self._last_input = self._last_output = self._generation_started = self._now()
        self._waiting_since: float | None = None
        self._answered_audio = 0.0
        self._shutdown_at: float | None = None
        self._first_delta_due = False
        self._counts = {"bytes_in": 0, "bytes_out": 0, "messages_in": 0, "messages_out": 0}
        self._audio_seconds = 0.0
        client.on_message = self._take_input

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
            if self._vllm is not None:
                self._vllm.transport.abort()  # closed in order before, unless this session was cancelled
            settings = self._settings
            await self._client.close(
                ending.close_code, ending.reason, drain=settings.drain_timeout, limit=settings.close_timeout
            )
            log_event(
                "session_closed",
                session=self.id,
                reason=ending.reason,
                close_code=ending.close_code,
                seconds=round(self._now() - self._started, 3),
                audio_seconds=round(self._audio_seconds + self._tracker.pending_audio, 3),
                **self._counts,
            )

    def tick(self) -> None:
        """Called a few times within each limit of time."""
        self._changed.set()

    def shut_down(self) -> None:
        """The container stops: end once no generation runs, or at the limit for that."""
        self._shutdown_at = self._now() + self._settings.shutdown_drain
        self._changed.set()

    async def _serve(self) -> Ending:
        query = urlsplit(self._client.path).query
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                vllm = await VllmSocket.connect(
                    f"ws://127.0.0.1:{self._settings.vllm_port}/v1/realtime" + (f"?{query}" if query else ""),
                    max_message_bytes=self._settings.max_message_bytes,
                    changed=self._changed,
                    on_message=self._take_output,
                )
        except (OSError, WebSocketException) as error:
            ending = _vllm_failure("upstream_unavailable", f"vLLM opened no session: {error or 'it did not answer'}")
            self._report(ending)
            return ending
        self._join(vllm)
        ending = await self._until_ending(vllm)
        self._taking_input = False
        ending = await self._finish(vllm, ending)
        if ending is COMPLETED and self._client.ended:
            ending = CLIENT_GONE  # it ended its input, but did not stay for the output
        self._report(ending)
        # Twice the handshake's own time: first the Close must get out, which a deaf server prevents.
        await vllm.close(2 * self._settings.close_timeout)
        return ending

    def _join(self, vllm: VllmSocket) -> None:
        self._vllm = vllm
        vllm.other, self._client.other = self._client, vllm
        self._client.resume_reading()
        for data in self._held:
            self._pass_on(vllm, data)
        self._held.clear()

    def _report(self, ending: Ending) -> None:
        if ending.message:
            log_event("session_error", session=self.id, code=ending.reason, side=ending.side)
            self._client.send(error_event(ending.reason, ending.message))

    # Messages

    def _take_input(self, data: bytes, is_text: bool) -> None:
        del is_text  # binary is taken for text
        self._last_input = self._now()
        self._counts["messages_in"] += 1
        self._counts["bytes_in"] += len(data)
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError as error:
                self._client.send(error_event("invalid_frame", f"a frame is not UTF-8 text: {error.reason}"))
                return
        if self._vllm is not None:
            self._pass_on(self._vllm, data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > self._settings.inbox_bytes:
            self._client.pause_reading()

    def _pass_on(self, vllm: VllmSocket, data: bytes) -> None:
        if not self._taking_input:
            return
        was_generating = self._tracker.generating
        self._tracker.observe_input(data)
        limit = self._settings.max_audio
        if limit is not None and self._tracker.pending_audio > limit:
            self._taking_input = False
            what = f"one generation takes {limit:.1f} s of audio; end it with a final commit, then start the next"
            self._too_long = Ending("session_length_limit", 1008, "bridge", what)
            self._changed.set()
            return
        if not was_generating and self._tracker.generating:
            self._begin_generation()
        self._waiting_since = self._waiting_since or self._last_input
        vllm.send(data)

    def _take_output(self, data: bytes, is_text: bool) -> None:
        self._last_output = self._now()
        self._counts["messages_out"] += 1
        self._counts["bytes_out"] += len(data)
        was_generating = self._tracker.generating
        kind = self._tracker.observe_output(data)
        if not was_generating and self._tracker.generating:
            self._begin_generation()
        if kind.startswith("transcription."):
            self._answered_audio = self._tracker.pending_audio
            self._waiting_since = None if self._tracker.final_commit_due else self._last_output
        if kind != "transcription.delta" or self._first_delta_due:
            self._note(kind)
        if self._listening:
            self._client.send(data, is_text=is_text)

    def _begin_generation(self) -> None:
        self._first_delta_due = True
        self._generation_started = self._now()

    def _note(self, kind: str) -> None:
        since_start = round(self._now() - self._generation_started, 3)
        if kind == "transcription.delta":
            self._first_delta_due = False
            log_event("session_first_delta", session=self.id, seconds=since_start)
        elif kind == "transcription.done":
            audio = self._tracker.take_audio()
            self._audio_seconds += audio
            self._answered_audio = 0.0
            log_event("session_done", session=self.id, seconds=since_start, audio_seconds=round(audio, 3))
        elif kind == "error":
            log_event("session_error", session=self.id, code=self._tracker.last_error_code, side="vllm")
        self._changed.set()  # the generation may have ended

    # The end

    async def _until_ending(self, vllm: VllmSocket) -> Ending:
        while (ending := self._end_of_a_side(vllm) or self._limit_reached(vllm)) is None:
            self._changed.clear()
            await self._changed.wait()
        return ending

    def _end_of_a_side(self, vllm: VllmSocket) -> Ending | None:
        if vllm.ended:
            return _upstream_ended(vllm)
        if self._client.client_closed:
            return COMPLETED
        if self._client.ended:
            return CLIENT_FAILED if self._client.failed else CLIENT_GONE
        return self._too_long

    def _limit_reached(self, vllm: VllmSocket) -> Ending | None:
        settings, now = self._settings, self._now()
        if max(self._last_input, self._last_output) <= now - settings.idle_timeout:
            text = f"no message for {settings.idle_timeout:g} s; open a new session to go on"
            return Ending("idle_timeout", 1008, "bridge", text)
        if self._shutdown_at is not None and (now >= self._shutdown_at or not self._tracker.generating):
            return SHUTTING_DOWN
        if not vllm.keep_alive(settings.keepalive):
            return _vllm_failure("upstream_unresponsive", "vLLM answers no ping any more")
        return self._stall(vllm, now)

    def _stall(self, vllm: VllmSocket, now: float) -> Ending | None:
        too_old = now - self._settings.stall_timeout
        if self._client.paused_since is not None:
            self._waiting_since = self._waiting_since and now  # nobody reads what vLLM has to say
            return self._client_stalled() if self._client.paused_since <= too_old else None
        if vllm.paused_since is not None and vllm.paused_since <= too_old:
            # A ping would not tell: it waits behind the message that vLLM does not take.
            what = "taken no input"
        elif self._waiting_since is not None and self._waiting_since <= too_old and self._output_is_owed():
            what = "owed output and said nothing"
        else:
            return None
        return _vllm_failure("upstream_stalled", f"vLLM has {what} for {self._settings.stall_timeout:g} s")

    def _output_is_owed(self) -> bool:
        tracker = self._tracker
        unanswered = tracker.pending_audio - self._answered_audio
        return tracker.generating and (unanswered >= MIN_UNANSWERED_AUDIO or not tracker.final_commit_due)

    def _client_stalled(self) -> Ending:
        text = f"the client has read nothing for {self._settings.stall_timeout:g} s"
        return Ending("client_stalled", 1008, "client", text)

    async def _finish(self, vllm: VllmSocket, ending: Ending) -> Ending:
        """Bring the generation that runs to its end, passing on what comes; return how the session ended after all."""
        if self._tracker.final_commit_due and vllm.paused_since is None:
            # Also when vLLM looks dead: a request that is never finished would stay in the engine for good.
            vllm.send(FINAL_COMMIT)
        if ending.side == "vllm":
            return ending
        since = self._now()
        while self._tracker.generating and not vllm.ended:
            now = self._now()
            if ending.reason == "client_stalled" and self._listening:
                self._listening = False
                vllm.resume_reading()
            heard = self._listening and not self._client.ended
            if heard and self._client.paused_since is not None:
                since, end = now, self._client.paused_since + self._settings.stall_timeout
                failure = self._client_stalled()
            else:
                # While somebody listens, only silence ends the wait: a long backlog may take its time.
                since = max(since, self._last_output) if heard else since
                end = since + self._settings.drain_timeout
                text = f"vLLM did not finish the generation: no output for {self._settings.drain_timeout:g} s"
                failure = _vllm_failure("drain_timeout", text)
            if end > now:
                self._changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(end - now):
                        await self._changed.wait()
            elif failure.side == "vllm":
                return failure
            else:
                ending, since = failure, now
        if self._tracker.generating:
            return _vllm_failure("upstream_closed", "vLLM ended before the generation was finished")
        return ending


def _upstream_ended(vllm: VllmSocket) -> Ending:
    protocol = vllm.protocol
    if protocol.close_rcvd is not None:
        return _vllm_failure("upstream_closed", f"vLLM closed the session with code {protocol.close_rcvd.code}")
    if protocol.close_sent is not None and protocol.close_sent.code == CloseCode.MESSAGE_TOO_BIG:
        return _vllm_failure("upstream_message_too_big", "vLLM sent a message beyond the bridge's limit")
    return _vllm_failure("upstream_died", "the connection to vLLM broke without a closing handshake")
