"""What `import voice_client` gives and what it costs."""

import subprocess
import sys

import pytest

import voice_client

HEAVY = ("boto3", "botocore", "awscrt", "aws_sdk_sagemaker_runtime_http2", "av", "numpy", "soxr", "typer", "rich")
FOREIGN = ("aws_cdk", "moto", "voice_local", "faster_whisper", "ctranslate2", "piper", "onnxruntime")


def _loaded_by(code: str, modules: tuple[str, ...]) -> list[str]:
    probe = f"{code}; import sys; print(*[name for name in {modules!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60)
    return result.stdout.split()


def test_the_package_is_light_until_something_of_it_is_used() -> None:
    assert _loaded_by("import voice_client", HEAVY) == []


def test_the_sessions_load_neither_the_cdk_nor_an_engine_nor_the_local_cloud() -> None:
    code = "from voice_client import AudioFile, Synthesizer, Transcriber; import voice_client.transport"
    assert _loaded_by(code, FOREIGN) == []


@pytest.mark.parametrize("name", voice_client.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(voice_client, name).__name__ == name
    assert name in dir(voice_client)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Transcribr'"):
        _ = voice_client.Transcribr  # type: ignore[attr-defined]
