"""The voice: the smoke test that leaves a file to listen to, every voice, every language, both ways to invoke it."""

import json
import shutil
import warnings
import wave

import pytest
from botocore.exceptions import ClientError

from tests.e2e.deployed_cloud import ROOT
from tests.integration.measuring import Measuring
from tests.integration.speech import CONVERSATION_SECONDS, SPEECH_RATE_HZ, Sound, Spoken, speak, words
from tests.integration.stage import DeployedStage, within
from voice_client import Synthesizer, VoiceError
from voice_client.session.voices import LANGUAGES, VOICES
from voice_local.demo.sentence import spoken_sentences
from voice_local.word_error_rate import word_error_rate

pytestmark = pytest.mark.timeout(600)

VALIDATION_OUTPUT = "validation-output.wav"

SECONDS_PER_WORD = (0.15, 1.2)
"""Slow and fast readers lie between 0.25 and 0.6; a text of a few words has pauses, so the bounds are wide. What lies
outside is a cut-off sentence or gibberish that does not end."""

LOUDNESS_DBFS = (-38.0, -6.0)
"""Speech is recorded at -30 to -12 dBFS; silence and square waves lie outside."""

SPOKEN_IN = {
    "Chinese": "早上好。今天天气很好。",
    "English": "Good morning, the weather is lovely today.",
    "Japanese": "おはようございます。今日はいい天気です。",
    "Korean": "좋은 아침입니다. 오늘은 날씨가 좋습니다.",
    "German": "Guten Morgen, das Wetter ist heute sehr schön.",
    "French": "Bonjour, il fait très beau aujourd'hui.",
    "Russian": "Доброе утро, сегодня прекрасная погода.",
    "Portuguese": "Bom dia, o tempo está ótimo hoje.",
    "Spanish": "Buenos días, hoy hace muy buen tiempo.",
    "Italian": "Buongiorno, oggi il tempo è bellissimo.",
}


def check_sound(spoken: Spoken, *, count: int) -> None:
    """See that audio can be the speech of so many words."""
    least, most = (count * seconds for seconds in SECONDS_PER_WORD)
    assert least <= spoken.seconds <= most, (
        f"{count} words took {spoken.seconds:.1f} s, not {least:.1f} to {most:.1f} s"
    )
    sound = Sound.of(spoken.pcm)
    assert LOUDNESS_DBFS[0] <= sound.rms_dbfs <= LOUDNESS_DBFS[1], f"its loudness is {sound.rms_dbfs:.1f} dBFS"
    assert sound.clipped < 0.01, f"{sound.clipped:.1%} of the samples are clipped"


async def test_the_voice_speaks_and_the_ear_reads_it_back(stage: DeployedStage, measuring: Measuring) -> None:
    """The smoke test of a deploy; the file is kept for whoever wants to listen."""
    sentence = spoken_sentences()
    path = measuring.folder / VALIDATION_OUTPUT
    with stage.explained("tts"):
        async with Synthesizer.connect(stage=stage.stage) as voice:
            spoken = await within(CONVERSATION_SECONDS, speak(voice, sentence, measuring))
    spoken.save(path)
    try:
        shutil.copyfile(path, ROOT / VALIDATION_OUTPUT)
    except OSError as error:  # says nothing about the voice
        warnings.warn(f"{VALIDATION_OUTPUT} is only in {path.parent}: {error}", stacklevel=1)

    with wave.open(str(path)) as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (SPEECH_RATE_HZ, 1, 2)
        assert wav.getnframes() * 2 == len(wav.readframes(wav.getnframes())), "the header tells the length"
        assert wav.getnframes() * 2 == len(spoken.pcm)
    assert spoken.metrics.chunks > 1, "all audio came in one piece: the voice does not stream"
    check_sound(spoken, count=words(sentence))
    measuring.add("tts.loudness", "dBFS", Sound.of(spoken.pcm).rms_dbfs)
    heard = stage.voice("transcribe", path)
    error_rate = word_error_rate(sentence, heard["text"])
    measuring.add("wer.smoke", "ratio", error_rate)
    assert error_rate <= 0.15, f"said: {sentence}\nheard: {heard['text']}"


@pytest.mark.parametrize("name", VOICES)
async def test_every_voice_speaks(stage: DeployedStage, measuring: Measuring, name: str) -> None:
    sentence = "Good morning, this is one of nine voices."
    with stage.explained("tts"):
        async with Synthesizer.connect(stage=stage.stage, voice=name, language="English") as voice:
            spoken = await within(CONVERSATION_SECONDS, speak(voice, sentence, measuring))

    check_sound(spoken, count=words(sentence))


@pytest.mark.parametrize("language", [name for name in LANGUAGES.values() if name != "English"])
async def test_every_language_is_spoken(stage: DeployedStage, measuring: Measuring, language: str) -> None:
    refusal: VoiceError | None = None
    try:
        async with Synthesizer.connect(stage=stage.stage, language=language) as voice:
            spoken = await within(CONVERSATION_SECONDS, speak(voice, SPOKEN_IN[language], measuring))
    except VoiceError as error:
        refusal = error
    if refusal is not None:
        # The local cloud's small voices may not know a language; then it has to say so rather than to speak nonsense.
        assert stage.stood_in_for, f"{language}: {refusal}"
        assert language in str(refusal)
        return
    assert 0.8 <= spoken.seconds <= 15.0, f"{language}: a short sentence took {spoken.seconds:.1f} s"
    assert LOUDNESS_DBFS[0] <= Sound.of(spoken.pcm).rms_dbfs <= LOUDNESS_DBFS[1], language


async def test_its_container_takes_no_stream_on_the_default_path(stage: DeployedStage) -> None:
    """vLLM-Omni's router knows `v1/audio/speech/stream`; a client that names no path must hear so, and not hang."""

    async def ask() -> None:
        async with stage.stream("tts", None) as stream:
            await stream.send_text('{"type": "session.config"}')
            await anext(stream)

    with pytest.raises(VoiceError) as refused:
        await within(CONVERSATION_SECONDS, ask())
    assert stage.name("tts") in str(refused.value)


def test_a_plain_request_gets_a_whole_recording(stage: DeployedStage, measuring: Measuring) -> None:
    """InvokeEndpoint reaches vLLM-Omni's other routes by the request's custom attributes."""
    sentence = "Good morning, this came in one piece."
    body = {"input": sentence, "voice": "Vivian", "language": "English", "response_format": "wav"}
    runtime = stage.client("sagemaker-runtime")
    try:
        answer = runtime.invoke_endpoint(
            EndpointName=stage.name("tts"),
            ContentType="application/json",
            CustomAttributes="route=/v1/audio/speech",
            Body=json.dumps(body).encode(),
        )
    except ClientError as error:
        pytest.fail(f"POST /invocations was refused: {error}", pytrace=False)
    path = measuring.folder / "plain-request.wav"
    path.write_bytes(answer["Body"].read())

    with wave.open(str(path)) as wav:
        spoken = Spoken(wav.readframes(wav.getnframes()), None)
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (SPEECH_RATE_HZ, 1, 2)
    check_sound(spoken, count=words(sentence))
