"""One session: a client's socket joined to one of vLLM's, and brought to an end in order whatever happens."""

import asyncio
import secrets
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from websockets.exceptions import WebSocketException
from websockets.frames import CloseCode
from websockets.protocol import Protocol

from voxtral_bridge.event_log import log_event
from voxtral_bridge.health import HealthProbe
from voxtral_bridge.realtime import FINAL_COMMIT, GenerationTracker, error_event
from voxtral_bridge.settings import BridgeSettings
from voxtral_bridge.web_socket import ClientSocket, WebSocket, change, open_web_socket


class Ending(NamedTuple):
    """Why a session ends. An ending with a message is told to the client as an `error` event of code `reason`."""

    reason: str
    close_code: int
    side: str
    """Who failed: `client`, `bridge` (a limit of ours) or `vllm`."""
    message: str = ""

    def after(self, seconds: float) -> "Ending":
        """The same with the limit of time in its message."""
        return self._replace(message=self.message.format(f"{seconds:g} s"))


def _vllm_failure(reason: str, message: str) -> Ending:
    # 1011, internal error: the client did nothing wrong, and another try can help.
    return Ending(reason, 1011, "vllm", message)


COMPLETED = Ending("completed", 1000, "client")
CLIENT_GONE = Ending("client_gone", 1006, "client")
CLIENT_FAILED = Ending("client_protocol_error", 1006, "client")
SHUTTING_DOWN = Ending("shutting_down", 1012, "bridge", "the container stops; open a new session")
INTERNAL_ERROR = Ending("internal_error", 1011, "bridge", "the bridge itself failed; its log says where")
IDLE = Ending("idle_timeout", 1008, "bridge", "no message for {}; open a new session to go on")
CLIENT_STALLED = Ending("client_stalled", 1008, "client", "the client has read nothing for {}")
UNRESPONSIVE = _vllm_failure("upstream_unresponsive", "vLLM has not been healthy for {}")
TAKES_NOTHING = _vllm_failure("upstream_stalled", "vLLM has taken no input for {}")
SAYS_NOTHING = _vllm_failure("upstream_stalled", "vLLM has owed output and said nothing for {}")
NOT_DRAINED = _vllm_failure("drain_timeout", "vLLM did not finish the generation: no output for {}")
UNFINISHED = _vllm_failure("upstream_closed", "vLLM ended before the generation was finished")


async def say_goodbye(client: ClientSocket, settings: BridgeSettings, ending: Ending, session: str = "") -> None:
    """Tell the client why it has no session (any more), and close."""
    if ending.message:
        log_event("session_error", session=session, code=ending.reason, side=ending.side)
        client.send(error_event(ending.reason, ending.message))
    await client.close(ending.close_code, ending.reason, settings.close_timeout, drain=settings.drain_timeout)


class Session:
    """Relays both directions; `run` returns when both sides are closed.

    The sockets call in with every message. All else that may end a session sets `changed`, or is seen at the next
    tick; then everything is looked at anew.
    """

    def __init__(self, client: ClientSocket, settings: BridgeSettings, probe: HealthProbe) -> None:
        self.id = secrets.token_hex(8)
        self._client = client
        self._vllm: WebSocket | None = None
        self._settings = settings
        self._probe = probe
        self._max_audio = settings.max_audio
        self._tracker = GenerationTracker()
        self._ending: Ending | None = None
        """Once it is known, no more input is taken."""
        self._listening = True
        """What vLLM says goes to the client."""
        self._first_delta_due = False
        self._counts = {"bytes_in": 0, "bytes_out": 0, "messages_in": 0, "messages_out": 0}
        self._audio_seconds = 0.0
        self._now = asyncio.get_running_loop().time
        self._started = self._last_message = self._last_output = self._generation_started = self._now()
        self._answered_at = self._started
        """When vLLM last owed nothing, or gave some of it."""
        self._stop_at: float | None = None

    async def run(self, sessions: int) -> None:
        """Serve the client from its handshake to the end; `sessions` is the number open now, for the log."""
        url, ending, limit = urlsplit(self._client.target), INTERNAL_ERROR, self._settings.close_timeout
        log_event("session_opened", session=self.id, path=url.path, sessions=sessions)
        try:
            ending = await self._serve(url.query)
        except asyncio.CancelledError:
            ending = SHUTTING_DOWN
            raise
        finally:
            closing = [say_goodbye(self._client, self._settings, ending, self.id)]
            if self._vllm is not None:
                # In order, as a server may crash or leave a request running otherwise.
                closing.append(self._vllm.close(CloseCode.NORMAL_CLOSURE, "", limit, drain=limit))
            await asyncio.gather(*closing)
            audio = round(self._audio_seconds + self._tracker.pending_audio, 3)
            facts: dict[str, Any] = {"session": self.id, "reason": ending.reason, "close_code": ending.close_code}
            seconds = self._since(self._started)
            log_event("session_closed", seconds=seconds, audio_seconds=audio, **facts, **self._counts)

    def shut_down(self) -> None:
        """The container stops: end once no generation runs, or at the limit for that."""
        self._stop_at = self._now() + self._settings.shutdown_drain
        self._client.changed.set()

    def _since(self, then: float) -> float:
        return round(self._now() - then, 3)

    async def _serve(self, query: str) -> Ending:
        settings, client = self._settings, self._client
        client.transport.pause_reading()  # until vLLM is there to take it
        try:
            async with asyncio.timeout(settings.connect_timeout):
                vllm = await open_web_socket(
                    f"ws://127.0.0.1:{settings.vllm_port}/v1/realtime" + (f"?{query}" if query else ""),
                    max_message_bytes=settings.max_message_bytes,
                    changed=client.changed,
                    on_message=self._take_output,
                )
        except (OSError, WebSocketException) as error:
            why = str(error) or "it did not answer in time"
            return _vllm_failure("upstream_unavailable", f"vLLM opened no session: {why}")
        self._vllm, vllm.other, client.other = vllm, client, vllm
        client.start(self._take_input)
        while self._ending is None:
            await change(client.changed, settings.tick)
            self._ending = self._ending or self._end_of_a_side(vllm) or self._limit_reached(vllm)
        ending = await self._finish(vllm, self._ending)
        return CLIENT_GONE if ending is COMPLETED and client.ended else ending

    # Messages

    def _take_input(self, data: bytes) -> None:
        self._last_message = self._now()
        self._counts["messages_in"] += 1
        self._counts["bytes_in"] += len(data)
        try:
            _ = data.isascii() or data.decode()
        except UnicodeDecodeError as error:
            self._client.send(error_event("invalid_frame", f"a frame is not UTF-8 text: {error.reason}"))
            self._client.hold()
            return
        if self._ending is not None or self._client.protocol.held_close is not None:
            return
        tracker, was_generating = self._tracker, self._tracker.generating
        tracker.observe_input(data)
        if tracker.pending_audio > self._max_audio:
            what = f"one generation takes {self._max_audio:.1f} s of audio; end it with a final commit, then start anew"
            self._ending = Ending("session_length_limit", 1008, "bridge", what)
            self._client.changed.set()
            return
        if tracker.generating and not was_generating:
            self._first_delta_due, self._generation_started = True, self._last_message
        self._client.other.send(data)

    def _take_output(self, data: bytes) -> None:
        self._last_message = self._last_output = self._now()
        self._counts["messages_out"] += 1
        self._counts["bytes_out"] += len(data)
        kind = self._tracker.observe_output(data)
        if kind.startswith("transcription."):
            self._answered_at = self._last_output
        if kind in ("transcription.done", "error") or (kind == "transcription.delta" and self._first_delta_due):
            self._note(kind)
        if self._listening:
            self._client.send(data)

    def _note(self, kind: str) -> None:
        if kind == "transcription.delta":
            self._first_delta_due = False
            log_event("session_first_delta", session=self.id, seconds=self._since(self._generation_started))
        elif kind == "transcription.done":
            audio, seconds = self._tracker.take_audio(), self._since(self._generation_started)
            self._audio_seconds += audio
            log_event("session_done", session=self.id, seconds=seconds, audio_seconds=round(audio, 3))
        elif kind == "error":
            log_event("session_error", session=self.id, code=self._tracker.last_error_code, side="vllm")
        self._client.changed.set()  # the generation may have ended

    # The end

    def _end_of_a_side(self, vllm: WebSocket) -> Ending | None:
        client = self._client.protocol
        if vllm.ended:
            return _upstream_ended(vllm.protocol)
        if client.held_close is not None:
            return COMPLETED
        if self._client.ended:
            return CLIENT_FAILED if client.parser_exc and client.close_sent else CLIENT_GONE
        return None

    def _limit_reached(self, vllm: WebSocket) -> Ending | None:
        settings, probe, now = self._settings, self._probe, self._now()
        if self._stop_at is not None and (now >= self._stop_at or not self._tracker.generating):
            return SHUTTING_DOWN
        if self._client.paused_since is not None or not self._tracker.owes_output:
            self._answered_at = now
        down_since = None if probe.healthy else max(probe.changed_at, self._started)
        stall = settings.stall_timeout
        for since, limit, ending in (
            (self._last_message, settings.idle_timeout, IDLE),
            (down_since, settings.unresponsive_timeout, UNRESPONSIVE),
            (vllm.paused_since, stall, TAKES_NOTHING),
            (self._answered_at, stall, SAYS_NOTHING),
            (self._client.paused_since, stall, CLIENT_STALLED),
        ):
            if since is not None and now - since >= limit:
                return ending.after(limit)
        return None

    async def _finish(self, vllm: WebSocket, ending: Ending) -> Ending:
        """Bring the generation that runs to its end, passing on what comes; return how the session ended after all."""
        client, settings, quiet_since = self._client, self._settings, self._now()
        if self._tracker.final_commit_due and vllm.paused_since is None:
            # Also when vLLM looks dead: a request that is never finished would stay in the engine for good.
            vllm.send(FINAL_COMMIT)
        while ending.side != "vllm" and self._tracker.generating:
            if vllm.ended:
                return UNFINISHED
            if client.paused_since is not None and self._now() - client.paused_since >= settings.stall_timeout:
                ending = CLIENT_STALLED.after(settings.stall_timeout)
            if ending.reason == CLIENT_STALLED.reason or client.ended:
                self._listening = False
                vllm.transport.resume_reading()
            else:
                # While somebody listens, only silence ends the wait: a long backlog may take its time.
                quiet_since = max(quiet_since, self._last_output if client.paused_since is None else self._now())
            if self._now() - quiet_since >= settings.drain_timeout:
                return NOT_DRAINED.after(settings.drain_timeout)
            await change(client.changed, settings.tick)
        return ending


def _upstream_ended(vllm: Protocol) -> Ending:
    if vllm.close_rcvd is not None:
        return _vllm_failure("upstream_closed", f"vLLM closed the session with code {vllm.close_rcvd.code}")
    if vllm.close_sent is not None and vllm.close_sent.code == CloseCode.MESSAGE_TOO_BIG:
        return _vllm_failure("upstream_message_too_big", "vLLM sent a message beyond the bridge's limit")
    return _vllm_failure("upstream_died", "the connection to vLLM broke without a closing handshake")
