"""A real Chromium with a fake microphone, at a page that `voice ui` serves for two endpoints on this machine."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import wave
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.soak.browser.stage import Stage, running_stage

ROOT = Path(__file__).parents[3]
RECORDINGS = ROOT / "tests" / "recordings"
PICTURES = ROOT / "build" / "browser"
VOICE = Path(sys.executable).parent / "voice"
WAIT_MS = 30_000
"""Longest wait for what a machine that does nothing else shows within a second or two."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

AGENT = """
def answer(turn):
    for number in range(1, 13):
        yield f"This is sentence number {number} of a long answer. "
"""

FLAGS = (
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-domain-reliability",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
)

RECORDER = """
async (name) => {
  const panel = document.querySelector(name);
  await panel.player.prepare();
  const code = `registerProcessor("recorder", class extends AudioWorkletProcessor {
    process([input]) {
      if (input[0]) this.port.postMessage({ samples: input[0].slice(), at: currentTime });
      return true;
    } });`;
  await panel.player.context.audioWorklet.addModule(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const node = new AudioWorkletNode(panel.player.context, "recorder", { numberOfOutputs: 0 });
  panel.recorded = [];
  panel.lastSound = 0;
  node.port.onmessage = ({ data: { samples, at } }) => {
    panel.recorded.push(samples);
    const last = samples.findLastIndex((sample) => sample !== 0);
    if (last < 0) return;
    panel.lastSound = performance.now();
    panel.lastSoundAt = at + (last + 1) / sampleRate;
  };
  const { sampleRate } = panel.player.context;
  const stop = panel.player.stop.bind(panel.player);
  panel.player.stop = () => { panel.stopAt = panel.player.context.currentTime; stop(); };
  panel.player.node.connect(node);
}
"""
"""Hears what the player's node gives to the loudspeaker, on the audio thread. `lastSoundAt` and `stopAt` are seconds of
the audio's own clock: what a listener hears after a stop, however slowly the machine runs."""

RECORDED = """
(name) => {
  const pieces = document.querySelector(name).recorded;
  const all = new Float32Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) { all.set(piece, at); at += piece.length; }
  const bytes = new Uint8Array(all.buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}
"""


@dataclass
class WebPage:
    """A running `voice ui`."""

    process: subprocess.Popen[str]
    url: str
    home: Path
    log: Path

    def end(self) -> tuple[int, str]:
        """Press Ctrl-C; return the exit code and what it said."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(20)
        return code, self.log.read_text()


@contextmanager
def serving(stage: Stage, *options: str, **environment: str) -> Iterator[WebPage]:
    with tempfile.TemporaryDirectory() as folder:
        home, log = Path(folder), Path(folder) / "ui.log"
        (home / "my_agent.py").write_text(AGENT)
        with log.open("w") as errors:
            process = subprocess.Popen(
                [VOICE, "ui", "--port", "0", "--json", *stage.options, *options],
                env=stage.environment(home, **environment),
                cwd=home,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            yield WebPage(process, json.loads(line)["url"], home, log)
        finally:
            process.kill()
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """Whisper hears, and a tone of 0.25 s a word speaks: samples that can be foretold."""
    with running_stage() as running:
        yield running


@pytest.fixture
def mortal_stage(stage: Stage) -> Iterator[Stage]:
    """The stage for a test that kills a part of it, which runs again for the next test whatever comes of this one."""
    yield stage
    stage.revive()


@pytest.fixture(scope="session")
def web_page(stage: Stage) -> Iterator[WebPage]:
    with serving(stage, "--reply", "my_agent:answer") as page:
        yield page


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (scripts/setup-browser installs one)")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as running:
        yield running


@dataclass
class Visitors:
    """Opens tabs, and remembers every request and every complaint of the browser."""

    url: str
    browser: Browser
    contexts: list[BrowserContext] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def tab(self, name: str = "Speak", **options: Any) -> Page:
        context = self.browser.new_context(permissions=["microphone"], accept_downloads=True, **options)
        self.contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        tab = context.new_page()
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        tab.goto(self.url)
        tab.get_by_role("button", name="Generate").wait_for()
        if name != "Speak":
            tab.get_by_role("tab", name=name).click()
        return tab

    @property
    def outside(self) -> list[str]:
        return [url for url in self.requests if urlsplit(url).hostname not in {"127.0.0.1", None, ""}]


@pytest.fixture
def visit(playwright: Playwright, web_page: WebPage) -> Iterator[Callable[..., Visitors]]:
    """Start a browser whose microphone hears samples of 16 kHz: `visit(samples)`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        started: list[Visitors] = []

        def start(heard: NDArray[np.int16] | None = None, *, url: str = web_page.url) -> Visitors:
            microphone = folder / f"microphone-{len(started)}.wav"
            write_wav(microphone, heard if heard is not None else np.zeros(16_000, "<i2"))
            flags = [*FLAGS, f"--use-file-for-fake-audio-capture={microphone}%noloop"]
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=[*flags, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            )
            stack.callback(browser.close)
            started.append(Visitors(url, browser))
            return started[-1]

        yield start
        for visitors in started:
            assert visitors.outside == [], "the page asked for something that is not on this machine"


def write_wav(path: Path, samples: NDArray[np.int16], rate: int = 16_000) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())


def read_wav(path: str | Path) -> NDArray[np.int16]:
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def spoken(*parts: str | float) -> NDArray[np.int16]:
    """Clips by the last digits of their names, and pauses in seconds."""
    pieces: list[NDArray[np.int16]] = [
        np.zeros(int(part * 16_000), "<i2")
        if isinstance(part, float)
        else read_wav(RECORDINGS / f"sense_and_sensibility_01_austen_64kb-{part}.wav")
        for part in parts
    ]
    return np.concatenate(pieces)


def text_of(*clips: str) -> str:
    texts = json.loads((RECORDINGS / "transcripts.json").read_text())
    return " ".join(texts[f"sense_and_sensibility_01_austen_64kb-{clip}.wav"] for clip in clips)


def heard_after_stop(tab: Page, panel: str) -> float:
    """Return how many seconds a panel's player sounded on after it was last told to stop, on the audio's clock."""
    seconds = "(({ lastSoundAt, stopAt }) => lastSoundAt - stopAt)"
    return float(tab.evaluate(f"{seconds}(document.querySelector('{panel}'))"))


def record(tab: Page, panel: str) -> None:
    """Record from now on what a panel's player plays."""
    tab.evaluate(RECORDER, panel)


def recorded(tab: Page, panel: str) -> NDArray[np.int16]:
    """Return what was played, as PCM16, from its first sound to its last; every sample must be a PCM16 value."""
    samples = np.frombuffer(base64.b64decode(tab.evaluate(RECORDED, panel)), "<f4").astype(np.float64) * 32768
    assert np.array_equal(samples, np.rint(samples)), "a sample was changed on its way"
    return without_silence(samples.astype(np.int16))


def without_silence(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    sounding = np.flatnonzero(samples)
    return samples[sounding[0] : sounding[-1] + 1] if len(sounding) else samples[:0]


def as_the_engine_speaks(words: Sequence[str]) -> NDArray[np.int16]:
    """What the stand-in's engine plays for words: the truth that the page's samples are held against."""
    from voice_local.engines.deterministic import tone

    return np.concatenate([np.frombuffer(tone(word), "<i2") for word in words])
