"""Which weights a stage's settings ask for, where they are staged, and whether they are there and right."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from botocore.exceptions import ClientError

from stacks.names import Service, weights_parameter_name, weights_stack_name
from stacks.settings import StageSettings
from voice_constructs.model_weights_job.weights_staging.manifest import Manifest, prefix_of, problems, surplus
from voice_constructs.model_weights_job.weights_staging.store import WeightsStore
from voice_constructs.prices import BYTES_PER_BILLED_GB, USD_PER_GB_MONTH_IN_S3
from voice_ops.errors import OpsError
from voice_ops.session import AwsSession, error_code, translated

CHUNK_BYTES = 8 * 1024 * 1024
"""Read at once by a deep look."""


class NothingToStageError(OpsError):
    """The settings ask for no staged weights."""


class NoStoreError(OpsError):
    """The stack that stages weights is not deployed."""


@dataclass(frozen=True, slots=True)
class WantedWeights:
    """What one endpoint's settings ask for."""

    service: Service
    model: str
    revision: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StagingPlace:
    """Where a stage's weights are staged: names of a bucket and of a build project."""

    bucket: str
    project: str


@dataclass(frozen=True, slots=True)
class StagedWeights:
    """What was found.

    Attributes:
        service: whose weights.
        model: `owner/name`.
        revision: the commit.
        location: `s3://bucket/prefix/`.
        manifest: None when there is none that can be read.
        problems: what is missing or wrong, each naming its file; empty when all is complete.
        surplus: files that the manifest does not know, which the container sees too.
    """

    service: Service
    model: str
    revision: str
    location: str
    manifest: Manifest | None
    problems: tuple[str, ...]
    surplus: tuple[str, ...]


def wanted_weights(settings: StageSettings) -> tuple[WantedWeights, ...]:
    """Return the weights that a stage wants staged.

    Raises:
        NothingToStageError: none.
    """
    services: tuple[Service, ...] = ("stt", "tts")
    found = tuple(
        WantedWeights(service, section.model, section.revision, tuple(section.weights_files))
        for service in services
        if (section := getattr(settings, service)).weights_staged
    )
    if not found:
        raise NothingToStageError(
            f"stage {settings.stage} stages no weights: set stt.weights or tts.weights to staged, and a commit as "
            "revision (docs/weights.md)"
        )
    return found


def staging_place(stage: str, aws: AwsSession) -> StagingPlace:
    """Return where a stage's weights are staged, as its stack published it.

    Raises:
        NoStoreError: there is no such stack.
        AwsError: AWS could not be asked.
    """
    names = {key: weights_parameter_name(stage, key) for key in ("bucket", "project")}
    ssm = aws.client("ssm")
    try:
        with translated(f"looking for the weights of stage {stage}"):
            found = {key: ssm.get_parameter(Name=name)["Parameter"]["Value"] for key, name in names.items()}
    except ClientError as error:
        if error_code(error) != "ParameterNotFound":
            raise
        stack = weights_stack_name(stage)
        raise NoStoreError(
            f"stack {stack} is not deployed in {aws.region}: `npx cdk deploy {stack} -c stage={stage}` makes the "
            "bucket and the build, and no endpoint (with the -c options of this command, if any)"
        ) from error
    return StagingPlace(str(found["bucket"]), str(found["project"]))


def look(
    wanted: WantedWeights,
    bucket: str,
    aws: AwsSession,
    *,
    deep: bool = False,
    progress: Callable[[str, int], None] = lambda _path, _bytes: None,
) -> StagedWeights:
    """Compare what is in the bucket with the manifest.

    Args:
        wanted: whose.
        bucket: its name.
        aws: who asks.
        deep: read every byte and take its SHA-256, instead of asking S3 for its checksums.
        progress: is told of each piece that a deep look reads: file, bytes.

    Raises:
        AwsError: AWS could not be asked.
    """
    store = WeightsStore(aws.client("s3"), bucket)
    location = f"s3://{bucket}/{prefix_of(wanted.model, wanted.revision)}"
    with translated(f"looking into {location}"):
        sizes = store.sizes(wanted.model, wanted.revision)
        try:
            manifest = store.manifest(wanted.model, wanted.revision)
        except ValueError as error:
            found: list[str] = [f"the manifest cannot be read: {error}"]
            return StagedWeights(wanted.service, wanted.model, wanted.revision, location, None, tuple(found), ())
        if manifest is None:
            found = [f"there is no manifest, so the staging never was complete ({len(sizes)} files are there)"]
            return StagedWeights(wanted.service, wanted.model, wanted.revision, location, None, tuple(found), ())
        found = problems(manifest, sizes)
        if sorted(manifest.patterns) != sorted(wanted.files):
            found.append(
                f"the manifest is of {','.join(manifest.patterns)}, the settings ask for {','.join(wanted.files)}"
            )
        for file in manifest.files:
            if sizes.get(file.path) != file.size:
                continue  # told above
            if deep:
                digest = hashlib.sha256()
                for chunk in store.chunks(wanted.model, wanted.revision, file.path, CHUNK_BYTES):
                    digest.update(chunk)
                    progress(file.path, len(chunk))
                if digest.hexdigest() != file.sha256:
                    found.append(f"{file.path} has sha256 {digest.hexdigest()}, not {file.sha256}")
            elif file.checksum is not None:
                checksum = store.checksum(wanted.model, wanted.revision, file.path)
                if checksum != file.checksum:
                    found.append(f"{file.path} was replaced: S3's checksum is {checksum}, not {file.checksum}")
    return StagedWeights(
        wanted.service,
        wanted.model,
        wanted.revision,
        location,
        manifest,
        tuple(found),
        tuple(surplus(manifest, sizes)),
    )


def monthly_cost(size: int) -> float:
    """Return what so many bytes cost in S3, US dollars a month; an estimate."""
    return size / BYTES_PER_BILLED_GB * USD_PER_GB_MONTH_IN_S3
