"""What a user is promised of `voice` against endpoints that the real CDK CLI deployed to the local cloud."""

import json
import os
import re
import signal
import subprocess
import time
import wave
from pathlib import Path

import pytest

from tests.e2e.deployed_cloud import RECORDINGS, VOICE, DeployedCloud
from voice_local.demo.sentence import spoken_sentences
from voice_local.word_error_rate import word_error_rate

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

TRANSCRIPTS = json.loads((RECORDINGS / "transcripts.json").read_text(encoding="utf-8"))
SHORTEST = RECORDINGS / "sense_and_sensibility_01_austen_64kb-0880.wav"
LONGEST = RECORDINGS / "sense_and_sensibility_01_austen_64kb-0870.wav"


def test_the_ready_line_says_how_to_reach_both_endpoints(cloud: DeployedCloud) -> None:
    assert cloud.description["endpoints"] == {"stt": "dev-voice-stt", "tts": "dev-voice-tts"}
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", cloud.description["control_plane"])
    assert re.fullmatch(r"https://127\.0\.0\.1:\d+", cloud.description["data_plane"])
    assert Path(cloud.description["ca_bundle"]).read_text().startswith("-----BEGIN CERTIFICATE-----")


def test_human_speech_comes_back_as_text(cloud: DeployedCloud) -> None:
    spoken, heard = [], []
    for name, text in TRANSCRIPTS.items():
        done = cloud.voice("transcribe", RECORDINGS / name, "--stage", "dev", "--json", "--no-pace")
        assert done.returncode == 0, done.stderr
        spoken.append(text)
        heard.append(json.loads(done.stdout)["text"])

    assert word_error_rate(" ".join(spoken), " ".join(heard)) <= 0.12, heard


def test_text_comes_back_as_speech_that_can_be_read_back(cloud: DeployedCloud, tmp_path: Path) -> None:
    sentence = spoken_sentences()
    target = tmp_path / "said.wav"

    done = cloud.voice("speak", sentence, "-o", target, "--json")

    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    with wave.open(str(target)) as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (24_000, 1, 2)
        seconds = wav.getnframes() / wav.getframerate()
        assert len(wav.readframes(wav.getnframes())) == wav.getnframes() * 2
    assert 2.0 < seconds < 20.0
    assert metrics["chunks"] > 2, "more than one audio frame a sentence"
    assert metrics["ttfa_ms"] > 0

    back = cloud.voice("transcribe", target, "--json", "--no-pace")
    assert back.returncode == 0, back.stderr
    # Words drawn anew each time, small engines: one misheard clause is no fault, another text (about 1.0) is.
    assert word_error_rate(sentence, json.loads(back.stdout)["text"]) <= 0.35, (sentence, back.stdout)


def test_plain_output_is_the_text_alone(cloud: DeployedCloud) -> None:
    done = cloud.voice("transcribe", SHORTEST, "--endpoint", "dev-voice-stt", "--no-pace")

    assert done.returncode == 0, done.stderr
    assert word_error_rate(TRANSCRIPTS[SHORTEST.name], done.stdout) <= 0.3, "the text of seven words"
    assert "\x1b" not in done.stdout + done.stderr, "colour although nothing is a terminal"


@pytest.mark.parametrize("selection", [("--stage", "dev"), ("--endpoint", "dev-voice-stt")])
def test_a_wrong_secret_key_is_named(cloud: DeployedCloud, selection: tuple[str, str]) -> None:
    done = cloud.voice("transcribe", SHORTEST, *selection, AWS_SECRET_ACCESS_KEY="wrong")

    assert done.returncode == 3, done.stderr
    assert "signature" in done.stderr
    assert done.stdout == ""


def test_an_unknown_endpoint_is_named(cloud: DeployedCloud) -> None:
    done = cloud.voice("transcribe", SHORTEST, "--endpoint", "no-such-voice")

    assert done.returncode == 3, done.stderr
    assert "no-such-voice" in done.stderr


def test_a_stage_that_is_not_deployed_is_named(cloud: DeployedCloud) -> None:
    done = cloud.voice("speak", "Hello.", "--stage", "nowhere")

    assert done.returncode == 3, done.stderr
    assert "nowhere" in done.stderr


def test_a_text_file_named_wav_is_refused_with_the_reason(cloud: DeployedCloud, tmp_path: Path) -> None:
    path = tmp_path / "note.wav"
    path.write_text("this is no audio at all")

    done = cloud.voice("transcribe", path)

    assert done.returncode == 2, done.stderr
    assert "note.wav" in done.stderr
    assert "audio" in done.stderr


def sessions(cloud: DeployedCloud) -> int:
    """How many sessions the ear's containers have seen begin."""
    logs = (cloud.run_dir / "containers").glob("dev-voice-stt-*.log")
    return sum(log.read_text(errors="replace").count('"session_first_delta"') for log in logs)


def test_a_killed_model_container_ends_the_transcription_with_the_cause(cloud: DeployedCloud) -> None:
    before = sessions(cloud)
    running = subprocess.Popen(
        [VOICE, "transcribe", LONGEST, "--no-retry"],
        env=cloud.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while sessions(cloud) == before and time.monotonic() < deadline:
        time.sleep(0.1)
    victims = cloud.containers("stand_in_vllm")
    assert victims, "no model container to kill"
    for pid in victims:  # the recording plays for 7 s: this is in the middle of it
        os.kill(pid, signal.SIGKILL)

    _, errors = running.communicate(timeout=30)

    assert running.returncode == 4, errors
    assert "dev-voice-stt" in errors
    assert "Traceback" not in errors
