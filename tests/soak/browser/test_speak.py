"""What a user is promised of the tab Speak, in a real browser."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.soak.browser.conftest import (
    Visitors,
    as_the_engine_speaks,
    heard_after_stop,
    read_wav,
    record,
    recorded,
    without_silence,
)
from tests.soak.browser.stage import Stage

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

LONG = " ".join(f"This is sentence number {number} of many that follow." for number in range(40))
SILENT_WITHIN = 0.2
"""Seconds from Stop to silence."""


def generate(tab: Page, text: str) -> None:
    tab.get_by_label("Text to speak").fill(text)
    tab.get_by_role("button", name="Generate").click()


def done(tab: Page) -> None:
    expect(tab.locator("voice-speak").get_by_role("status")).to_have_text("Done.", timeout=30_000)


def test_what_is_played_is_what_was_made_sample_by_sample_and_can_be_saved(
    visit: Callable[..., Visitors], tmp_path: Path
) -> None:
    visitors = visit()
    tab = visitors.tab()
    record(tab, "voice-speak")
    text = "Good morning to you. This is one more sentence."

    generate(tab, text)
    done(tab)

    made = as_the_engine_speaks(text.split())
    assert np.array_equal(recorded(tab, "voice-speak"), without_silence(made)), "a gap, a click or a lost sample"
    with tab.expect_download() as saving:
        tab.get_by_role("button", name="Save as WAV").click()
    saving.value.save_as(tmp_path / "saved.wav")
    assert np.array_equal(read_wav(tmp_path / "saved.wav"), made)
    facts = tab.evaluate("document.querySelector('voice-speak').shadowRoot.querySelector('dl').innerText")
    assert f"{len(made) * 2:,}" in facts
    last = tab.evaluate(
        "(({ startedAt, clickedAt, metrics }) => ({ ms: startedAt - clickedAt, metrics }))"
        "(document.querySelector('voice-speak').last)"
    )
    assert last["metrics"]["bytes"] == len(made) * 2
    assert 0 < last["ms"] < 5_000
    print(json.dumps({"click_to_first_sample_ms": last["ms"], "client_ttfa_ms": last["metrics"]["ttfa_ms"]}))
    assert visitors.complaints == []


def test_stop_silences_at_once_and_the_next_text_is_whole(visit: Callable[..., Visitors]) -> None:
    tab = visit().tab()
    record(tab, "voice-speak")
    generate(tab, LONG)
    expect(tab.locator("voice-speak").get_by_role("status")).to_have_text("Speaking 40 sentences …")
    tab.wait_for_function("document.querySelector('voice-speak').current?.startedAt")
    tab.wait_for_timeout(400)

    tab.get_by_role("button", name="Stop").click()
    tab.wait_for_timeout(500)

    heard = heard_after_stop(tab, "voice-speak")
    print(json.dumps({"stop_to_silence_ms": round(heard * 1000, 1)}))
    assert heard < SILENT_WITHIN
    tab.evaluate("document.querySelector('voice-speak').recorded = []")
    generate(tab, "Short again.")
    done(tab)
    assert np.array_equal(recorded(tab, "voice-speak"), without_silence(as_the_engine_speaks(["Short", "again."])))


def test_two_tabs_at_once_do_not_mix(visit: Callable[..., Visitors]) -> None:
    visitors = visit()
    texts = ["One tab says just this.", "Another tab tells a different story altogether."]
    tabs = [visitors.tab() for _ in texts]
    for tab in tabs:
        record(tab, "voice-speak")
    for tab, text in zip(tabs, texts, strict=True):
        generate(tab, text)

    for tab, text in zip(tabs, texts, strict=True):
        done(tab)
        expected = without_silence(as_the_engine_speaks(text.split()))
        assert np.array_equal(recorded(tab, "voice-speak"), expected), text


def test_a_closed_tab_ends_its_streams(visit: Callable[..., Visitors], stage: Stage) -> None:
    def streams() -> int:
        server = psutil.Process(stage.processes["omni"].pid)
        return sum(connection.status == psutil.CONN_ESTABLISHED for connection in server.net_connections("tcp"))

    def wait_for_no_stream(why: str) -> None:
        end = time.monotonic() + 30
        while streams():
            assert time.monotonic() < end, why
            time.sleep(0.05)

    tab = visit().tab()
    wait_for_no_stream("a tab of an earlier test left its stream open")
    generate(tab, LONG)
    tab.wait_for_function("document.querySelector('voice-speak').current?.startedAt")
    assert streams()

    tab.close()

    wait_for_no_stream("the stream goes on although nobody listens")


def test_a_lost_voice_is_said_and_speaks_again_when_it_is_back(
    visit: Callable[..., Visitors], mortal_stage: Stage
) -> None:
    tab = visit().tab()
    generate(tab, "Before.")
    done(tab)

    mortal_stage.kill("omni")
    generate(tab, "While it is away.")
    alert = tab.locator("voice-speak").get_by_role("alert")
    expect(alert).to_contain_text("page-voice-tts", timeout=45_000)
    print(json.dumps({"said": alert.inner_text()}))

    mortal_stage.revive()
    generate(tab, "It is back.")
    done(tab)
    expect(alert).to_be_hidden()


def test_an_empty_text_is_said(visit: Callable[..., Visitors]) -> None:
    tab = visit().tab()
    generate(tab, "  ")

    expect(tab.locator("voice-speak").get_by_role("alert")).to_have_text("There is no text to speak: write one.")
