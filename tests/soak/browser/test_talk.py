"""What a user is promised of the tab Talk: it answers, yields to who speaks, and says how long each wait was."""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.soak.browser.conftest import Visitors, heard_after_stop, record, spoken, text_of
from tests.soak.browser.stage import Stage
from voice_local.word_error_rate import word_error_rate

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

SILENT_WITHIN = 0.2
"""Seconds from the moment an interruption is noticed to silence."""

SLOW_TO_ASK = """
(() => {
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  window.tracks = [];
  navigator.mediaDevices.getUserMedia = async (wanted) => {
    await new Promise((resolve) => setTimeout(resolve, 400));
    const stream = await ask(wanted);
    window.tracks.push(...stream.getTracks());
    return stream;
  };
})()
"""
"""A browser that takes its time to give the microphone, and remembers each that it gave."""


MEASURED = """
() => {
  const { handlers } = document.querySelector("voice-talk").link;
  const take = handlers.onMessage;
  window.measured = {};
  handlers.onMessage = (message) => {
    if (message.type === "measured") window.measured[message.metrics.turn + 1] = message.metrics.total_ms;
    take(message);
  };
}
"""
"""Remembers what the server says that each turn took in all."""


def test_it_answers_and_yields_to_who_speaks(visit: Callable[..., Visitors]) -> None:
    visitors = visit(spoken(0.5, "0890", 9.0, "0920", 60.0))  # a slow machine too has begun to answer by then
    tab = visitors.tab("Talk")
    record(tab, "voice-talk")
    tab.evaluate(MEASURED)
    tab.get_by_role("button", name="Start talking").click()

    bubbles = tab.get_by_role("log", name="Conversation").locator("p")
    expect(bubbles.nth(1)).to_have_class("bubble voice interrupted")
    tab.wait_for_timeout(400)

    heard = heard_after_stop(tab, "voice-talk")
    print(json.dumps({"interruption_to_silence_ms": round(heard * 1000, 1)}))
    assert heard < SILENT_WITHIN

    expect(bubbles).to_have_count(4)
    # Over the voice, the browser's echo canceller takes some of the speech away too.
    for bubble, clip, most in ((0, "0890", 0.12), (2, "0920", 0.4)):
        said = bubbles.nth(bubble).locator("span").inner_text()
        assert word_error_rate(text_of(clip), said) <= most, said
    rows = tab.get_by_role("table").locator("tbody tr")
    expect(rows).to_have_count(2)
    tab.wait_for_function(
        "(({ arrived }) => arrived.turn === 1 && arrived.until_played_ms)(document.querySelector('voice-talk'))"
    )
    told = tab.evaluate("measured")
    for row in rows.all():
        turn, *waits = (int(cell) for cell in row.locator("th, td").all_inner_texts())
        print(json.dumps({"turn": turn, "waits_ms": waits, "told_ms": told[str(turn)]}))
        assert sum(waits[:3]) == pytest.approx(waits[3], abs=3)
        assert waits[3] > told[str(turn)], "the way to the loudspeaker comes on top"

    tab.get_by_role("button", name="Stop the voice").click()
    tab.get_by_role("button", name="End the conversation").click()
    expect(tab.locator("voice-talk").get_by_role("status")).to_have_text("Ended.")
    assert visitors.complaints == []


def test_a_conversation_goes_on_when_a_lost_ear_is_back(visit: Callable[..., Visitors], mortal_stage: Stage) -> None:
    tab = visit(spoken(0.5, *(("0930", 2.5) * 20))).tab("Talk")
    tab.get_by_role("button", name="Start talking").click()
    bubbles = tab.get_by_role("log", name="Conversation").locator("p")
    expect(bubbles.nth(1)).to_be_visible(timeout=30_000)

    mortal_stage.kill("vllm")
    alert = tab.locator("voice-talk").get_by_role("alert")
    expect(alert).to_contain_text("page-voice-stt", timeout=60_000)
    assert "goes on by itself" in alert.inner_text()
    kept = bubbles.count()

    mortal_stage.revive()
    expect(alert).to_be_hidden(timeout=30_000)
    expect(bubbles.nth(kept + 1)).to_be_visible(timeout=30_000)


def test_a_browser_without_a_microphone_says_so(visit: Callable[..., Visitors]) -> None:
    tab = visit().tab("Talk")
    tab.evaluate(
        "void (navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError')))"
    )
    tab.get_by_role("button", name="Start talking").click()

    expect(tab.locator("voice-talk").get_by_role("alert")).to_contain_text("allow it for this page")
    expect(tab.get_by_role("button", name="Start talking")).to_be_enabled()


def test_a_double_click_starts_once_and_no_microphone_stays_open(visit: Callable[..., Visitors]) -> None:
    visitors = visit()
    tab = visitors.tab("Talk")
    tab.evaluate(SLOW_TO_ASK)
    button = tab.locator("voice-talk button.primary")
    status = tab.locator("voice-talk").get_by_role("status")

    button.dblclick()
    expect(status).to_have_text("Listening: speak now.")
    assert tab.evaluate("tracks.map((track) => track.readyState)") == ["live"]
    button.click()
    expect(status).to_have_text("Ended.")

    button.click()
    button.click(delay=100)  # ended while the browser is asked
    tab.wait_for_function("tracks.length === 2 && tracks.every((track) => track.readyState === 'ended')")
    expect(status).to_have_text("Ended.")
    assert visitors.complaints == []
