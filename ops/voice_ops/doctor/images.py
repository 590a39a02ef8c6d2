"""The containers: whether their tags exist, and whether the CUDA inside fits the inference AMI."""

import json
from typing import Any
from urllib.parse import urlencode

from botocore.exceptions import ClientError

from stacks.names import Service
from stacks.settings import StageSettings
from voice_constructs.inference_ami import CudaVersion, InferenceAmi
from voice_constructs.published_images import BRIDGE_BASE_CUDA_13, DEFAULT_OMNI_VERSION, OMNI_REPOSITORY, cuda_of_image
from voice_constructs.published_images import omni_tag as tag_of_omni
from voice_ops.assembly import Assembly
from voice_ops.doctor.check import Check, failed, passed, skipped
from voice_ops.doctor.container_accounts import container_account
from voice_ops.doctor.public_request import PublicRequestError, get
from voice_ops.doctor.subject import Limits, Places, Subject
from voice_ops.session import error_code, translated

PUBLIC_REGISTRY = "public.ecr.aws"

_MANIFEST_TYPES = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
)


def voice_image(subject: Subject) -> Check:
    """Check that the vLLM-Omni container's tag exists in AWS's account for the region."""
    tts, aws = subject.settings.tts, subject.aws
    tag = tag_of_omni(tts.container_version)
    account = container_account(aws.region)
    if account is None:
        return skipped("image.tts", f"no container account is known for {aws.region}: see the line `region`")
    where = f"{account}.dkr.ecr.{aws.region}.amazonaws.com/{OMNI_REPOSITORY}:{tag}"
    advice = f"correct tts.container_version (now {tts.container_version}); {DEFAULT_OMNI_VERSION} is known to exist"
    try:
        with translated(f"looking for {where}"):
            # What SageMaker itself does to pull: allowed to everybody, where listing tags need not be.
            answer = aws.client("ecr").batch_get_image(
                registryId=account,
                repositoryName=OMNI_REPOSITORY,
                imageIds=[{"imageTag": tag}],
                acceptedMediaTypes=list(_MANIFEST_TYPES),
            )
            found, missing = answer["images"], answer["failures"]
    except ClientError as error:
        if error_code(error) != "RepositoryNotFoundException":
            raise
        return failed("image.tts", f"there is no repository {OMNI_REPOSITORY} in account {account}", advice)
    if found:
        return passed("image.tts", where)
    reason = "; ".join(str(failure.get("failureReason", "")) for failure in missing)
    return failed("image.tts", f"{where} does not exist ({reason or 'no reason given'})", advice)


def bridge_base_image(settings: StageSettings, places: Places, limits: Limits) -> Check:
    """Check that the tag of the image the bridge is built on exists."""
    image = settings.stt.base_image
    if not image.startswith(f"{PUBLIC_REGISTRY}/"):
        return skipped("image.stt", f"{image} is in no registry that can be asked without logging in")
    registry = places.public_registry
    if registry is None:
        return skipped(
            "image.stt",
            f"{image}: with a local cloud no public registry is asked",
            "VOICE_PUBLIC_REGISTRY_URL names one to ask",
        )
    repository, _, tag = image.removeprefix(f"{PUBLIC_REGISTRY}/").rpartition(":")
    try:
        status = _public_status(registry, repository, tag, limits.request_seconds)
    except PublicRequestError as error:
        return skipped("image.stt", f"{image} could not be looked for: {error}", "check the network, and HTTPS_PROXY")
    if status == 404:
        known = BRIDGE_BASE_CUDA_13.rpartition(":")[2]
        return failed("image.stt", f"{image} does not exist", f"correct stt.base_image; {known} is known to exist")
    if status != 200:
        detail = f"{image} could not be looked for: {registry} answered {status}"
        return skipped("image.stt", detail, "run this again later")
    return passed("image.stt", image)


def _public_status(registry: str, repository: str, tag: str, seconds: float) -> int:
    """Ask for a tag's manifest as `docker pull` does, with a token for anybody; return the HTTP status."""
    scope = urlencode({"service": PUBLIC_REGISTRY, "scope": f"repository:{repository}:pull"})
    granted = get(f"{registry}/token/?{scope}", seconds=seconds)
    if granted.status != 200:
        return granted.status if granted.status != 404 else 502
    try:
        token = json.loads(granted.body)["token"]
    except (ValueError, KeyError, TypeError):
        raise PublicRequestError(f"{registry} gave no token in the form expected") from None
    headers = {"Authorization": f"Bearer {token}", "Accept": ", ".join(_MANIFEST_TYPES)}
    return get(
        f"{registry}/v2/{repository}/manifests/{tag}", seconds=seconds, headers=headers, method="HEAD", follow=False
    ).status


def inference_ami(subject: Subject, service: Service) -> Check:
    """Check one endpoint's image CUDA, the AMI that follows from it, and where another is set.

    Looked at are the live endpoint's configuration and, when they are at hand, the templates about to be deployed.
    """
    stt, tts = subject.settings.stt, subject.settings.tts
    if service == "stt":
        image, stated = stt.base_image, stt.cuda
    else:
        image, stated = f"{OMNI_REPOSITORY}:{tag_of_omni(tts.container_version)}", tts.cuda
    cuda = cuda_of_image(image) or stated
    if cuda is None:  # the settings refuse it
        return skipped(f"ami.{service}", f"the CUDA version of {image} is not known")
    return _ami(subject, service, cuda)


def _ami(subject: Subject, service: Service, cuda: CudaVersion) -> Check:
    check, ami = f"ami.{service}", InferenceAmi.for_cuda(cuda)
    fits = f"CUDA {cuda} on {ami.version} (driver {ami.driver})"
    endpoint = subject.settings.endpoint_name(service)
    forced = sorted({given or "none" for given in _template_amis(subject.assembly, endpoint) if given != ami.version})
    if forced:
        return failed(
            check,
            f"CUDA {cuda} needs {ami.version}, but the template of {endpoint} says {', '.join(forced)}: its container "
            "would never start, and write no log",
            f"take away the override of InferenceAmiVersion in the stack: {ami.version} follows from the image",
        )
    deployed = _deployed_amis(subject.aws.client("sagemaker"), endpoint)
    wrong = sorted({given or "none" for given in deployed if given != ami.version})
    if wrong:
        return failed(
            check,
            f"CUDA {cuda} needs {ami.version}, but {endpoint} is configured with {', '.join(wrong)}: its container "
            "never starts there, and writes no log",
            f"take away what sets InferenceAmiVersion (an override, the console) and deploy again: {ami.version} "
            "follows from the image",
        )
    return passed(check, f"{fits}{', as deployed' if deployed else ''}")


def _template_amis(assembly: Assembly | None, stack: str) -> list[str | None]:
    """Return the AMI of each variant of each endpoint configuration in a stack's template."""
    return [
        variant.get("InferenceAmiVersion")
        for synthesized in (assembly.stacks if assembly is not None else ())
        if synthesized.name == stack
        for resource in synthesized.resources.values()
        if resource["Type"] == "AWS::SageMaker::EndpointConfig"
        for variant in resource["Properties"]["ProductionVariants"]
    ]


def _deployed_amis(sagemaker: Any, endpoint: str) -> list[str | None]:
    """Return the AMI of each variant of a live endpoint's configuration; nothing when there is no endpoint."""
    try:
        with translated(f"describing {endpoint}"):
            name = sagemaker.describe_endpoint(EndpointName=endpoint)["EndpointConfigName"]
            variants = sagemaker.describe_endpoint_config(EndpointConfigName=name)["ProductionVariants"]
    except ClientError as error:
        if error_code(error) not in {"ValidationException", "ResourceNotFound"}:
            raise
        return []
    return [variant.get("InferenceAmiVersion") for variant in variants]
