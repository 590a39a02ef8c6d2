"""How much the web page adds to the client's own wait for the first sound, in a real browser.

    python -m benchmarks.web_page [--rounds 10] [--json]

Starts two endpoints on this machine whose voice answers at once, `voice ui`, and a Chromium; presses Generate again and
again. For each round: from the click to the first sample that the audio thread plays, and the client's own TTFA of the
same utterance, to whose first audible sample the tone of the stand-in adds nothing that counts. Also, from Stop to the
last sample that is not silent.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.soak.browser.conftest import FLAGS, RECORDER, serving
from tests.soak.browser.stage import running_stage

TEXT = "Good morning to you and to all who listen."
DONE = "document.querySelector('voice-speak').last?.utterance === {}"


def first_sound(tab: Page, utterance: int) -> tuple[float, float, float]:
    """Press Generate; return milliseconds from the click to the first chunk and to the first sample, and the TTFA."""
    tab.get_by_role("button", name="Generate").click()
    tab.wait_for_function(DONE.format(utterance), timeout=30_000)
    arrived, played, client = tab.evaluate(
        "(({ arrivedAt, startedAt, clickedAt, metrics }) => "
        "[arrivedAt - clickedAt, startedAt - clickedAt, metrics.ttfa_ms])"
        "(document.querySelector('voice-speak').last)"
    )
    return arrived, played, client


def stop(tab: Page) -> float:
    """Stop in the middle; return milliseconds from the click to the last sample that is not silent."""
    tab.evaluate("document.querySelector('voice-speak').lastSound = 0")
    tab.get_by_role("button", name="Generate").click()
    tab.wait_for_function("document.querySelector('voice-speak').lastSound > 0")
    tab.wait_for_timeout(300)
    tab.get_by_role("button", name="Stop").click()
    tab.wait_for_timeout(300)
    return float(
        tab.evaluate("(({ stoppedAt, lastSound }) => lastSound - stoppedAt)(document.querySelector('voice-speak'))")
    )


def measure(rounds: int) -> dict[str, Any]:
    """Return the measures in milliseconds."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium: run scripts/setup-browser")
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with running_stage(stt_engine="deterministic") as stage, serving(stage) as page, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        tab = browser.new_page()
        tab.goto(page.url)
        tab.get_by_label("Text to speak").fill(TEXT)
        tab.wait_for_timeout(2_000)  # the stream is opened while somebody writes
        tab.evaluate(RECORDER, "voice-speak")
        _, first_click, _ = first_sound(tab, 1)
        waits = [first_sound(tab, utterance) for utterance in range(2, rounds + 2)]
        stops = [stop(tab) for _ in range(rounds)]
        latency = tab.evaluate(
            "(({ baseLatency, outputLatency }) => (baseLatency + outputLatency) * 1000)"
            "(document.querySelector('voice-speak').player.context)"
        )
        browser.close()
    arrived, played, client = zip(*waits, strict=True)
    return {
        "rounds": rounds,
        "first_click_to_first_sample_ms": round(first_click, 1),
        "click_to_first_chunk_ms": _spread(arrived),
        "click_to_first_sample_ms": _spread(played),
        "client_ttfa_ms": _spread(client),
        "added_by_the_page_ms": _spread([page - own for page, own in zip(played, client, strict=True)]),
        "of_it_the_audio_device_ms": round(latency, 1),
        "stop_to_silence_ms": _spread(stops),
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 1), "max": round(max(values), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often (default: 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    result = measure(arguments.rounds)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        shown = f"{value['median']:8.1f} median {value['max']:8.1f} max" if isinstance(value, dict) else f"{value:8.1f}"
        print(f"{name:28} {shown}")


if __name__ == "__main__":
    main()
