"""What a user is promised of the tab Transcribe, in a real browser with a fake microphone that plays human speech."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.soak.browser.conftest import Visitors, spoken, text_of, write_wav
from tests.soak.browser.stage import Stage
from voice_local.word_error_rate import word_error_rate

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

CLIPS = ("0870", "0890", "0920")
TEXT = """
[...document.querySelector("voice-transcribe").part_.text.querySelectorAll("p")]
  .map((p) => p.lastChild.textContent).join(" ")
"""


def status(tab: Page) -> Locator:
    return tab.locator("voice-transcribe").get_by_role("status")


def heard(tab: Page) -> str:
    return str(tab.evaluate(TEXT))


def test_a_microphone_becomes_text_while_somebody_speaks(visit: Callable[..., Visitors], tmp_path: Path) -> None:
    visitors = visit(spoken(0.5, CLIPS[0], 0.9, CLIPS[1], 0.9, CLIPS[2], 60.0))
    tab = visitors.tab("Transcribe")
    expect(tab.get_by_role("button", name="Save TXT")).to_be_disabled()

    tab.get_by_role("button", name="Start microphone").click()

    expect(tab.locator("voice-transcribe .partial")).to_be_visible()
    expect(tab.get_by_role("meter", name="Microphone level")).not_to_have_attribute("aria-valuenow", "0")
    log = tab.get_by_role("log", name="Transcript")
    expect(log.locator("p:not(.partial)")).to_have_count(len(CLIPS), timeout=60_000)
    tab.get_by_role("button", name="Stop microphone").click()
    expect(tab.get_by_role("button", name="Save TXT")).to_be_enabled()

    rate = word_error_rate(text_of(*CLIPS), heard(tab))
    print(json.dumps({"wer_microphone": round(rate, 4)}))
    assert rate <= 0.12, heard(tab)
    files = {}
    for kind in ("TXT", "SRT", "JSON"):
        with tab.expect_download() as saving:
            tab.get_by_role("button", name=f"Save {kind}").click()
        assert saving.value.suggested_filename.endswith(f".{kind.lower()}")
        saving.value.save_as(tmp_path / kind)
        files[kind] = (tmp_path / kind).read_text()
    assert " ".join(files["TXT"].split()) == " ".join(heard(tab).split())
    assert files["SRT"].startswith("1\n00:00:0")
    turns = json.loads(files["JSON"])["turns"]
    assert [turn["text"] for turn in turns] == files["TXT"].splitlines()
    assert visitors.complaints == []


def test_a_file_becomes_text_faster_than_it_was_spoken(visit: Callable[..., Visitors], tmp_path: Path) -> None:
    clips = ("0870", "0880", "0890", "0920", "0930")
    write_wav(tmp_path / "talk.wav", spoken(*(part for clip in clips for part in (clip, 1.2))))
    (tmp_path / "note.wav").write_text("this is no audio at all")
    tab = visit().tab("Transcribe")

    with tab.expect_file_chooser() as choosing:
        tab.get_by_role("button", name="Choose a file").click()
    choosing.value.set_files(tmp_path / "talk.wav")
    expect(status(tab)).to_have_text("Done.", timeout=60_000)

    rate = word_error_rate(text_of(*clips), heard(tab))
    print(json.dumps({"wer_file": round(rate, 4)}))
    assert rate <= 0.12, heard(tab)

    with tab.expect_file_chooser() as choosing:
        tab.get_by_role("button", name="Choose a file").click()
    choosing.value.set_files(tmp_path / "note.wav")
    expect(tab.locator("voice-transcribe").get_by_role("alert")).to_contain_text("note.wav")


def test_a_lost_ear_is_said_and_hears_again_when_it_is_back(
    visit: Callable[..., Visitors], mortal_stage: Stage
) -> None:
    tab = visit(spoken(0.5, *(("0930", 0.9) * 30))).tab("Transcribe")
    tab.get_by_role("button", name="Start microphone").click()
    log = tab.get_by_role("log", name="Transcript")
    expect(log.locator("p:not(.partial)")).to_have_count(1, timeout=30_000)

    mortal_stage.kill("vllm")
    alert = tab.locator("voice-transcribe").get_by_role("alert")
    expect(alert).to_contain_text("page-voice-stt", timeout=60_000)
    said = alert.inner_text()
    print(json.dumps({"said": said}))
    assert "goes on by itself" in said
    kept = log.locator("p:not(.partial)").count()

    mortal_stage.revive()
    expect(alert).to_be_hidden(timeout=30_000)
    expect(log.locator("p:not(.partial)")).to_have_count(kept + 1, timeout=30_000)
