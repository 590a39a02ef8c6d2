"""Images without Docker: what `docker build` and `push` record, and what ECR shows of it."""

import os
import subprocess
from pathlib import Path

import pytest

from voice_local.docker_shim import write_wrapper
from voice_local.dockerfile import DockerfileError, labels_of
from voice_local.image_store import ImageStore, ImageStoreError, StoredImage, split_uri

REPOSITORY = "cdk-assets"
URI = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{REPOSITORY}:abc"
LABEL = "com.amazonaws.sagemaker.capabilities.bidirectional-streaming"


@pytest.fixture
def context(tmp_path: Path) -> Path:
    context = tmp_path / "context"
    (context / "bridge").mkdir(parents=True)
    (context / "bridge" / "main.py").write_text("print('bridge')\n")
    (context / "Dockerfile").write_text(f'ARG BASE_IMAGE=base:1\nFROM ${{BASE_IMAGE}}\nLABEL {LABEL}="true"\n')
    return context


@pytest.fixture
def docker(tmp_path: Path, images_dir: Path) -> Path:
    # A blank in the path: the wrapper is a shell script.
    return write_wrapper(tmp_path / "run dir", images_dir)


def run(
    docker: Path, *arguments: str, stdin: str = "", cwd: Path | None = None, attestations: bool = False
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [docker, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=cwd,
        check=False,
        env={**os.environ, "BUILDX_NO_DEFAULT_ATTESTATIONS": "" if attestations else "1"},
    )


def push(docker: Path, context: Path) -> None:
    # As cdk-assets calls it: in the context's directory, which is named `.`.
    build = ["build", "--build-arg", "BASE_IMAGE=vllm:2.3", "--tag", "cdkasset-abc", "--platform", "linux/amd64", "."]
    for arguments in (build, ["tag", "cdkasset-abc", URI], ["push", URI]):
        done = run(docker, *arguments, cwd=context)
        assert done.returncode == 0, done.stderr


def test_the_docker_stand_in_records_what_a_build_says(docker: Path, context: Path, images_dir: Path) -> None:
    assert run(docker, "login", "--username", "AWS", "--password-stdin", "host", stdin="secret").returncode == 0
    assert run(docker, "inspect", "cdkasset-abc").returncode == 1
    push(docker, context)
    assert run(docker, "inspect", "cdkasset-abc").returncode == 0
    (context / "bridge" / "main.py").write_text("changed after the push\n")

    image = ImageStore(images_dir).find(URI)
    assert image is not None
    assert (image.repository, image.tag, image.platform) == (REPOSITORY, "abc", "linux/amd64")
    assert image.build_args == {"BASE_IMAGE": "vllm:2.3"}
    assert image.labels == {LABEL: "true"}
    assert image.dockerfile.is_file()
    assert (image.context / "bridge" / "main.py").read_text() == "print('bridge')\n"
    assert "secret" not in "".join(path.read_text() for path in images_dir.rglob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["push", "absent:1"], "No such image: absent:1"),
        (["tag", "absent:1", "other:1"], "No such image: absent:1"),
        (["run", "x"], "invalid choice"),
        (["build", "--tag", "x", "/does/not/exist"], "/does/not/exist"),
        (["build", "--tag", "x", "--secret", "id=a", "."], "unrecognized"),
    ],
)
def test_what_the_stand_in_cannot_do_fails_and_says_so(docker: Path, arguments: list[str], message: str) -> None:
    done = run(docker, *arguments)
    assert done.returncode not in {0, 1}
    assert message in done.stderr


def test_a_build_that_would_get_attestations_fails_because_sagemaker_refuses_them(docker: Path, context: Path) -> None:
    done = run(docker, "build", "--tag", "x", str(context), attestations=True)
    assert done.returncode == 125
    assert "BUILDX_NO_DEFAULT_ATTESTATIONS=1" in done.stderr
    assert run(docker, "inspect", "x").returncode == 1


def test_an_image_is_stored_whole_or_not_at_all(tmp_path: Path, context: Path, images_dir: Path) -> None:
    store = ImageStore(images_dir)
    outside = StoredImage(URI, context, tmp_path / "Dockerfile", {}, None, {})
    with pytest.raises(ImageStoreError, match="Cannot store the image"):
        store.save(outside)
    assert store.find(URI) is None
    assert list(images_dir.iterdir()) == []

    saved = store.save(StoredImage(URI, context, context / "Dockerfile", {}, None, {}))
    assert list(store) == [saved]
    (images_dir / saved.context.parent.name / "image.json").write_text("{")
    with pytest.raises(ImageStoreError, match="delete that directory"):
        store.find(URI)
    assert store.remove(URI)
    assert not store.remove(URI)


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("host.com:5000/a/b:1", ("host.com:5000", "a/b", "1")),
        ("a/b", ("", "a/b", "latest")),
        ("localhost/a", ("localhost", "a", "latest")),
    ],
)
def test_uris_are_split(uri: str, parts: tuple[str, str, str]) -> None:
    assert split_uri(uri) == parts


DOCKERFILE = r"""
# syntax=docker/dockerfile:1
ARG VERSION=1
FROM base:${VERSION} AS build
LABEL stage=build kept="from ${VERSION}"
FROM build
ARG VERSION
ARG NAME=voice
ENV TEXT="two words"
LABEL org.name=$NAME \
      # a comment inside
      org.version="${VERSION}" \
      org.text="${TEXT}" org.none="${ABSENT:-none}" org.dollar="\$5"
LABEL maintainer the old form
RUN echo "LABEL not=alabel"
"""


def test_labels_are_read_as_docker_sets_them() -> None:
    assert labels_of(DOCKERFILE, {"VERSION": "2"}) == {
        "stage": "build",
        "kept": "from ",  # an ARG before FROM is not known inside the stage
        "org.name": "voice",
        "org.version": "2",
        "org.text": "two words",
        "org.none": "none",
        "org.dollar": "$5",
        "maintainer": "the old form",
    }
    assert labels_of(DOCKERFILE, {}, target="build") == {"stage": "build", "kept": "from "}
    with pytest.raises(DockerfileError, match="no stage other"):
        labels_of(DOCKERFILE, {}, target="other")
    with pytest.raises(DockerfileError, match="no FROM"):
        labels_of("ARG A=1\n", {})


def test_ecr_shows_pushed_images_and_a_deletion_removes_them(client, docker: Path, context: Path, images_dir) -> None:
    ecr = client("ecr")
    ecr.create_repository(repositoryName=REPOSITORY)
    with pytest.raises(ecr.exceptions.ImageNotFoundException):
        ecr.describe_images(repositoryName=REPOSITORY, imageIds=[{"imageTag": "abc"}])
    push(docker, context)
    images = ecr.describe_images(repositoryName=REPOSITORY, imageIds=[{"imageTag": "abc"}])["imageDetails"]
    assert [image["imageTags"] for image in images] == [["abc"]]
    push(docker, context)  # again: the same image, still one
    assert len(ecr.list_images(repositoryName=REPOSITORY)["imageIds"]) == 1

    ecr.batch_delete_image(repositoryName=REPOSITORY, imageIds=[{"imageTag": "abc"}])
    assert ImageStore(images_dir).find(URI) is None
    assert ecr.list_images(repositoryName=REPOSITORY)["imageIds"] == []
