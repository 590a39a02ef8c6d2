"""Weights in S3, staged by the stage or by its owner: whether they are there, whole, and in the right region."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from stacks.endpoint_settings import EndpointSettings, S3Location
from stacks.names import Service
from stacks.settings import StageSettings
from voice_ops.doctor.check import Check, failed, passed, warned
from voice_ops.doctor.subject import Subject
from voice_ops.session import error_code, translated
from voice_ops.weights.staged import NoStoreError, WantedWeights, look, staging_place, wanted_weights

_INDEX = ".safetensors.index.json"
_DESCRIBED_BY = ("config.json", "params.json")
_GB = 1e9


def weights_checks(subject: Subject) -> Iterator[Check]:
    """Yield the lines `weights.stt` and `weights.tts`."""
    settings = subject.settings
    staged = {wanted.service: wanted for wanted in wanted_weights(settings)} if _stages(settings) else {}
    services: tuple[tuple[Service, EndpointSettings], ...] = (("stt", settings.stt), ("tts", settings.tts))
    for service, endpoint in services:
        check, location = f"weights.{service}", endpoint.weights_location
        if service in staged:
            yield _staged(subject, check, staged[service])
        elif location is not None:
            yield _folder(subject, check, location)
        else:
            revision = endpoint.revision or "its main branch"
            yield passed(check, f"nothing to stage: the container downloads {endpoint.model}, {revision}")


def _stages(settings: StageSettings) -> bool:
    return settings.stt.weights_staged or settings.tts.weights_staged


def _staged(subject: Subject, check: str, wanted: WantedWeights) -> Check:
    stage = subject.settings.stage
    named = f"{wanted.model} at {wanted.revision[:12]}"
    command = f"voice weights stage --stage {stage}"
    try:
        place = staging_place(stage, subject.aws)
        found = look(wanted, place.bucket, subject.aws)
    except NoStoreError:
        return passed(check, f"{named} is not staged yet: the first deploy copies it from the hub to S3")
    except ClientError as error:
        if error_code(error) not in {"404", "NoSuchBucket"}:
            raise
        return failed(check, f"the stage's bucket {place.bucket} is gone", f"deploy {stage}-voice-weights again")
    if found.manifest is None:
        return warned(check, f"{named}: {'; '.join(found.problems)}", f"stage it before the deploy: `{command}`")
    if found.problems:
        return failed(check, f"{found.location} is incomplete: {'; '.join(found.problems)}", f"run `{command}`")
    if found.surplus:
        return warned(
            check,
            f"{found.location} holds files that are not of {named}, and the container sees them: "
            f"{', '.join(found.surplus)}",
            "remove them, if nobody put them there on purpose",
        )
    return passed(
        check, f"{found.location}: complete, {len(found.manifest.files)} files, {found.manifest.size / _GB:.1f} GB"
    )


def _folder(subject: Subject, check: str, location: S3Location) -> Check:
    where = f"s3://{location.bucket}/{location.prefix}"
    s3 = subject.aws.client("s3")
    try:
        with translated(f"looking into {where}"):
            region = s3.head_bucket(Bucket=location.bucket).get("BucketRegion", subject.aws.region)
            files = {
                entry["Key"].removeprefix(location.prefix): int(entry["Size"])
                for page in s3.get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=location.prefix)
                for entry in page.get("Contents", [])
            }
            needed = _shards(s3, location, files)
    except ClientError as error:
        if error_code(error) not in {"404", "NoSuchBucket", "403"}:
            raise
        return failed(
            check,
            f"the bucket {location.bucket} is not there or not yours ({error_code(error)})",
            "correct the setting `weights`, or stage the weights: voice weights stage",
        )
    if region != subject.aws.region:
        return failed(
            check,
            f"{where} is in {region}, the endpoint in {subject.aws.region}: SageMaker loads from its own region only",
            "copy the weights to a bucket in the endpoint's region",
        )
    problems = _problems(files, needed)
    if problems:
        return failed(
            check, f"{where} is incomplete: {'; '.join(problems)}", "stage the weights again: voice weights stage"
        )
    return passed(check, f"{where}: {len(files)} files, {sum(files.values()) / _GB:.1f} GB")


def _shards(s3: Any, location: S3Location, files: Mapping[str, int]) -> set[str]:
    """Return the names that the weights' own index lists; empty without an index."""
    index = next((name for name in files if name.endswith(_INDEX)), None)
    if index is None:
        return set()
    body = s3.get_object(Bucket=location.bucket, Key=location.prefix + index)["Body"].read()
    try:
        return {str(name) for name in json.loads(body)["weight_map"].values()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {f"{index} (its list of files cannot be read)"}


def _problems(files: Mapping[str, int], needed: set[str]) -> list[str]:
    if not files:
        return ["nothing is there"]
    problems = [f"{name} is missing" for name in sorted(needed - files.keys())]
    if not any(name.endswith(".safetensors") for name in files):
        problems.append("no *.safetensors file")
    if not any(name in files for name in _DESCRIBED_BY):
        problems.append(f"neither {' nor '.join(_DESCRIBED_BY)}")
    problems += [f"{name} is empty" for name, size in sorted(files.items()) if size == 0 and not name.endswith("/")]
    return problems
