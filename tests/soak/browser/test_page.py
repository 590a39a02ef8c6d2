"""What a user is promised of the page as a whole: it looks right, keyboards and screen readers can use it, it ends."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.soak.browser.conftest import PICTURES, ROOT, Visitors, WebPage, serving
from tests.soak.browser.stage import Stage

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

NOT_PERMITTED = 77
LEAST_CONTRAST = 4.5
"""WCAG 2.2, level AA, for text of normal size."""

CONTRASTS = """
(name) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const over = (colours) => {  // what the eye sees of colours laid over each other, the lowest first
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (colour) => {
    const [red, green, blue] = colour.map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const found = [];
  for (const element of document.querySelector(name).shadowRoot.querySelectorAll("*")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || !element.checkVisibility() || element.disabled || element.closest(":disabled")) continue;
    const behind = [];
    for (let at = element; at; at = at.parentElement ?? at.getRootNode().host) {
      behind.unshift(getComputedStyle(at).backgroundColor);
    }
    const [text_, ground] = [over([...behind, getComputedStyle(element).color]), over(behind)].map(light);
    const ratio = (Math.max(text_, ground) + 0.05) / (Math.min(text_, ground) + 0.05);
    found.push([element.className || element.tagName, Math.round(ratio * 100) / 100]);
  }
  return found;
}
"""

SAMPLE = """
() => {
  const talk = document.querySelector("voice-talk");
  talk.words("you", "What is the weather like tomorrow?", { partial: false });
  talk.said = null;
  talk.reply("Mild and mostly dry, with a little rain towards the evening.");
  talk.measures = { turn: 0, final_text_ms: 912, first_token_ms: 143, first_sound_ms: 201, total_ms: 1256 };
  talk.showWaits();
  const transcribe = document.querySelector("voice-transcribe");
  transcribe.showFinal({ text: "Good morning, and welcome to the meeting.", start: 0.4, end: 3.1,
    metrics: { first_partial_ms: 640, finalization_ms: 310 } });
  transcribe.showPartial("The first point is");
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_looks_right_and_can_be_read(visit: Callable[..., Visitors], scheme: str) -> None:
    visitors = visit()
    PICTURES.mkdir(parents=True, exist_ok=True)
    tab = visitors.tab(color_scheme=scheme, viewport={"width": 1200, "height": 950})
    for name in ("Talk", "Transcribe", "Speak"):  # a tab's inside is made when it is first seen
        tab.get_by_role("tab", name=name).click()
        tab.locator(f"voice-{name.lower()} button.primary").wait_for()
    tab.evaluate(SAMPLE)
    tab.get_by_role("button", name="Generate").click()
    expect(tab.locator("voice-speak").get_by_role("status")).to_have_text("Done.", timeout=30_000)
    for width in (1200, 390):
        tab.set_viewport_size({"width": width, "height": 950})
        for name in ("Speak", "Transcribe", "Talk"):
            tab.get_by_role("tab", name=name).click()
            tab.wait_for_timeout(250)
            tab.screenshot(path=PICTURES / f"{name.lower()}-{scheme}-{width}.png", full_page=True)
            wide = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{name} at {width} pixels must be scrolled sideways"
            contrasts = tab.evaluate(CONTRASTS, f"voice-{name.lower()}")
            assert contrasts
            assert [found for found in contrasts if found[1] < LEAST_CONTRAST] == []


def test_a_keyboard_and_a_screen_reader_can_use_it(visit: Callable[..., Visitors]) -> None:
    tab = visit().tab()
    text = tab.get_by_label("Text to speak")
    text.fill("By the keyboard alone.")
    reached = set()
    for _ in range(14):
        tab.keyboard.press("Tab")
        reached.add(
            tab.evaluate("(document.activeElement.shadowRoot?.activeElement ?? document.activeElement).textContent")
        )
        if "Generate" in reached:
            break
    assert "Generate" in reached, "the keyboard never comes to the button"
    tab.keyboard.press("Enter")
    status = tab.locator("voice-speak").get_by_role("status")
    expect(status).to_have_text("Done.", timeout=30_000)

    text.fill("Once more. " * 30)
    text.press("Control+Enter")
    expect(status).to_contain_text("Speaking")
    tab.keyboard.press("Escape")
    expect(status).to_have_text("Stopped.")

    nameless = """
    () => {
      const all = [...document.querySelectorAll("voice-speak, voice-transcribe, voice-talk")]
        .flatMap((panel) => [...panel.shadowRoot.querySelectorAll("button, input, [role], progress, meter, canvas")]);
      return all.filter((part) => !["status", "alert"].includes(part.role ?? part.getAttribute("role")))
        .filter((part) => !(part.ariaLabel || part.textContent.trim() || part.labels?.length)).map((p) => p.outerHTML);
    }
    """
    assert tab.evaluate(nameless) == []
    for name, roles in {
        "Speak": [("button", "Generate"), ("button", "Stop"), ("button", "Save as WAV"), ("img", "Waveform")],
        "Transcribe": [("button", "Start microphone"), ("log", "Transcript"), ("meter", "Microphone level")],
        "Talk": [("button", "Start talking"), ("log", "Conversation"), ("checkbox", "I may interrupt"), ("table", "")],
    }.items():
        tab.get_by_role("tab", name=name).click()
        for role, label in roles:
            expect(tab.get_by_role(role, name=re.compile(label))).to_have_count(1)  # type: ignore[arg-type]


def test_ctrl_c_ends_it_with_a_tab_open_and_the_tab_says_so(visit: Callable[..., Visitors], stage: Stage) -> None:
    with serving(stage) as page:
        tab = visit(url=page.url).tab()
        tab.get_by_label("Text to speak").fill("This is a long text. " * 40)
        tab.get_by_role("button", name="Generate").click()
        tab.wait_for_function("document.querySelector('voice-speak').current?.startedAt")

        code, said = page.end()

        assert code == 0, said
        assert "Traceback" not in said
        assert said.rstrip().endswith("voice: ended")
        assert "long text" not in said, "a spoken word in a log"
        expect(tab.locator("voice-speak").get_by_role("alert")).to_contain_text("is `voice ui` still running?")


def test_a_password_guards_the_page(visit: Callable[..., Visitors], stage: Stage, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    with serving(stage, "--password-file", str(secret)) as page:
        visitors = visit(url=page.url)
        tab: Page = visitors.browser.new_context().new_page()
        tab.goto(page.url)
        tab.get_by_label("Password").fill("open sesame")
        tab.get_by_role("button", name="Log in").click()
        tab.get_by_role("button", name="Generate").click()
        expect(tab.locator("voice-speak").get_by_role("status")).to_have_text("Done.", timeout=30_000)
        assert "open sesame" not in page.log.read_text()


def test_nothing_of_the_page_tries_to_leave_this_machine(tmp_path: Path) -> None:
    count = tmp_path / "count"
    guard = ROOT / "tests" / "e2e" / "loopback_only.py"
    done = subprocess.run(
        [sys.executable, guard, count, sys.executable, "-m", "tests.soak.browser.whole_page"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    if done.returncode == NOT_PERMITTED:
        pytest.skip("this user may not make network namespaces")

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["bytes"] > 10_000
    assert int(count.read_text()) == 0, "something tried to leave this machine"


def test_the_only_address_is_loopback(web_page: WebPage) -> None:
    assert web_page.url.startswith("http://127.0.0.1:")
    lines = Path("/proc/net/tcp").read_text().splitlines()
    port = f"{int(web_page.url.rsplit(':', 1)[1].strip('/')):04X}"
    listening = {line.split()[1] for line in lines[1:] if line.split()[3] == "0A" and line.split()[1].endswith(port)}
    assert listening == {f"0100007F:{port}"}


def test_a_page_that_nobody_looks_at_costs_next_to_nothing(stage: Stage) -> None:
    with serving(stage) as page:
        time.sleep(1)
        process = psutil.Process(page.process.pid)
        before = sum(process.cpu_times()[:2])
        time.sleep(5)
        assert sum(process.cpu_times()[:2]) - before <= 0.15, "3 % of a core; looking for work all the time takes 6 %"
