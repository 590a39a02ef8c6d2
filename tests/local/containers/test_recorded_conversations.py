"""Every conversation recorded from the real front-ends, played against the stand-ins over a real WebSocket.

The deterministic engines give what the recordings' stub gave, so texts, token counts and byte counts are compared
too; only ids, times, the wording of errors and compressed audio are free.
"""

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

SAMPLES = [
    json.loads(line) for line in (Path(__file__).parent / "wire-samples.jsonl").read_text(encoding="utf-8").splitlines()
]
ANSWER_SECONDS = 5.0
SILENCE_SECONDS = 0.15
PATHS = {"vLLM 0.27.1": "/v1/realtime", "vLLM 0.17.1": "/v1/realtime", "vLLM-Omni 0.26.0": "/v1/audio/speech/stream"}
FIXTURES = {"vLLM 0.27.1": "vllm_027", "vLLM 0.17.1": "vllm_017", "vLLM-Omni 0.26.0": "omni"}
FREE_TEXT = {"id", "created", "error", "message"}
COMPRESSED = {"mp3", "flac", "opus"}


def test_the_recordings_are_all_there() -> None:
    counts = {server: sum(sample["server"] == server for sample in SAMPLES) for server in FIXTURES}
    assert counts == {"vLLM 0.27.1": 22, "vLLM 0.17.1": 22, "vLLM-Omni 0.26.0": 30}


def test_whatever_holds_a_trap_is_there() -> None:
    """README.md beside this file says which scenario or test holds the stand-ins to each trap."""
    folder = Path(__file__).parent
    held_by = [line.split(" | ")[-1] for line in (folder / "README.md").read_text("utf-8").splitlines() if "|" in line]
    scenarios = set(re.findall(r'"(.+?)"', "\n".join(held_by)))
    tests = set(re.findall(r"`(test_\w+)`", "\n".join(held_by)))
    code = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
    assert len(scenarios) > 30
    assert len(tests) > 10
    assert scenarios <= {sample["scenario"] for sample in SAMPLES}
    assert tests <= set(re.findall(r"def (test_\w+)\(", code))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample['server']}: {sample['scenario']}")
async def test_same_events_in_the_same_order(sample: dict[str, Any], request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(FIXTURES[sample["server"]])
    async with connect(server.url(PATHS[sample["server"]]), compression=None, close_timeout=1) as websocket:
        replay = Replay(websocket)
        for entry in sample["frames"]:
            if entry["dir"] == "C->S":
                await replay.send(entry["frame"])
            elif entry["dir"] == "S->C":
                await replay.expect(entry["frame"], entry.get("times", 1))
            else:
                await replay.expect_close(entry["code"])
                return
        await replay.expect_silence()


class Replay:
    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket
        self.format = "pcm"
        self.audio_bytes = 0

    async def send(self, frame: Any) -> None:
        if isinstance(frame, dict) and set(frame) == {"text"}:
            await self.websocket.send(frame["text"])
        elif isinstance(frame, dict) and "binary" in frame:
            await self.websocket.send(bytes.fromhex(frame["head"]))
        else:
            await self.websocket.send(json.dumps(whole(frame)))

    async def receive(self) -> Any:
        async with asyncio.timeout(ANSWER_SECONDS):
            received = await self.websocket.recv()
        return json.loads(received) if isinstance(received, str) else received

    async def expect(self, recorded: dict[str, Any], times: int) -> None:
        if "binary" in recorded:
            received = [await self.receive() for _ in range(times)]
            assert all(isinstance(frame, bytes) for frame in received), received
            self.audio_bytes = sum(map(len, received))
            if self.format in COMPRESSED:
                assert self.audio_bytes > 0
            else:
                assert self.audio_bytes == recorded["binary"]
            return
        for _ in range(times):
            event = await self.receive()
            assert isinstance(event, dict), f"binary frame of {len(event)} bytes in the place of {recorded}"
            if event["type"] == "audio.start":
                self.format = event["format"]
            expected = dict(recorded)
            if event["type"] == "audio.done" and self.format in COMPRESSED:
                expected["total_bytes"] = self.audio_bytes
            assert list(event) == list(expected), "fields or their order differ"
            for name in FREE_TEXT & set(event):
                if isinstance(expected[name], str):
                    assert event[name]
                    assert isinstance(event[name], int if name == "created" else str)
                    expected[name] = event[name]
            assert event == expected

    async def expect_close(self, code: int | None) -> None:
        with pytest.raises(ConnectionClosed) as closed:
            await self.receive()
        assert (closed.value.rcvd.code if closed.value.rcvd else None) == code

    async def expect_silence(self) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SILENCE_SECONDS):
                pytest.fail(f"one event too many: {await self.websocket.recv()!r}")
        await asyncio.wait_for(await self.websocket.ping(), ANSWER_SECONDS)


def whole(frame: Any) -> Any:
    """Put back what the recording cut out: audio, and the long text."""
    if not isinstance(frame, dict):
        return frame
    frame = dict(frame)
    if (cut := re.fullmatch(r"<base64, (\d+) chars>", str(frame.get("audio", "")))) is not None:
        frame["audio"] = base64.b64encode(bytes(int(cut[1]) // 4 * 3 - 2)).decode()
        assert len(frame["audio"]) == int(cut[1])
    if (cut := re.search(r"\.\.\. \((\d+) chars\)$", str(frame.get("text", "")))) is not None:
        frame["text"] = "a " * (int(cut[1]) // 2)
    return frame
