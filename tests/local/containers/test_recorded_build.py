"""What a Dockerfile says to start, turned into paths of the recorded build context."""

from pathlib import Path

import pytest

from voice_local.containers.known_images import vllm_release_of
from voice_local.containers.recorded_build import RecordedBuildError, read_recorded_build

DOCKERFILE = """
# syntax=docker/dockerfile:1
ARG TAG=0.17.1-gpu-py312-cu129-ubuntu22.04-sagemaker-v1.0-soci
ARG BASE=public.ecr.aws/deep-learning-containers/vllm:${TAG}
FROM python:3.12 AS builder
COPY ignored /app/
ENTRYPOINT ["never"]
FROM --platform=linux/amd64 ${BASE}
ARG LEVEL=info
ENV PYTHONPATH=/opt/app \\
    # a comment between
    GREETING="two words" LOG_LEVEL=${LEVEL:-warn}
WORKDIR /opt
COPY --from=builder /app /elsewhere
COPY package app/package
COPY --chmod=755 start.py tools.py app/
RUN pip install something
ENTRYPOINT ["python3", "-u", "/opt/app/start.py", "--level", "$LOG_LEVEL"]
CMD ["serve"]
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    for name in ("start.py", "tools.py"):
        (tmp_path / name).touch()
    (tmp_path / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    return tmp_path


def test_the_last_stage_decides(context: Path) -> None:
    build = read_recorded_build(context, context / "Dockerfile", {"LEVEL": "debug"})
    assert build.entrypoint == ("python3", "-u", str(context / "start.py"), "--level", "debug")
    assert build.default_arguments == ("serve",)
    assert build.environment == {"PYTHONPATH": "/opt/app", "GREETING": "two words", "LOG_LEVEL": "debug"}
    assert build.base_image.endswith("vllm:0.17.1-gpu-py312-cu129-ubuntu22.04-sagemaker-v1.0-soci")
    assert build.working_directory == context


def test_a_build_argument_changes_the_base(context: Path) -> None:
    build = read_recorded_build(context, context / "Dockerfile", {"BASE": "example.com/base:1"})
    assert build.base_image == "example.com/base:1"


@pytest.mark.parametrize("text", ["", "FROM x\nENTRYPOINT exec start\n", 'FROM x\nCMD ["a"]\n'])
def test_nothing_to_start_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "Dockerfile").write_text(text, encoding="utf-8")
    with pytest.raises(RecordedBuildError):
        read_recorded_build(tmp_path, tmp_path / "Dockerfile", {})


@pytest.mark.parametrize(
    ("base_image", "release"),
    [
        ("public.ecr.aws/deep-learning-containers/vllm:0.17.1-gpu-py312-cu129-ubuntu22.04-sagemaker-v1.0-soci", "0.17"),
        ("public.ecr.aws/deep-learning-containers/vllm:0.27.0-gpu-py312", "0.27"),
        ("public.ecr.aws/deep-learning-containers/vllm:server-sagemaker-cuda-v2.3", None),
    ],
)
def test_the_base_image_tells_which_vllm_is_stood_in_for(base_image: str, release: str | None) -> None:
    assert vllm_release_of(base_image) == release
