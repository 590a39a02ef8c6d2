"""What is there already under the stage's names: a stack that cannot be updated, or things that are in its way."""

from typing import Any

from botocore.exceptions import ClientError

from stacks.names import Service, parameter_name
from voice_ops.doctor.check import Check, failed, passed
from voice_ops.doctor.subject import Subject
from voice_ops.session import error_code, translated

_STUCK = {
    "ROLLBACK_FAILED": "delete it: aws cloudformation delete-stack --stack-name {name}",
    "DELETE_FAILED": "delete it again: aws cloudformation delete-stack --stack-name {name}",
    "CREATE_FAILED": "delete it: aws cloudformation delete-stack --stack-name {name}",
    "UPDATE_FAILED": "roll it back: aws cloudformation rollback-stack --stack-name {name}",
    "UPDATE_ROLLBACK_FAILED": "aws cloudformation continue-update-rollback --stack-name {name}",
}


def stack(subject: Subject, service: Service) -> Check:
    """Check that the stack of one endpoint can be created or updated."""
    check, name = f"stack.{service}", subject.settings.endpoint_name(service)
    status = _status(subject.aws.client("cloudformation"), name)
    # A change set that nobody carried out leaves a stack with nothing in it, which the next deploy takes.
    if status in {None, "REVIEW_IN_PROGRESS"}:
        return _unclaimed(subject, service)
    if status in _STUCK:
        cure = _STUCK[status].format(name=f"{name} --region {subject.aws.region}")
        return failed(check, f"{name} is {status}: it takes no update", cure)
    if status.endswith("_IN_PROGRESS"):
        return failed(
            check, f"{name} is {status}: somebody deploys or destroys it now", "wait until that has ended; voice status"
        )
    return passed(check, f"{name} is {status}: a deploy updates it")


def _status(cloudformation: Any, name: str) -> str | None:
    try:
        with translated(f"describing stack {name}"):
            return str(cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
    except ClientError as error:
        if error_code(error) != "ValidationError":
            raise
        return None


def _unclaimed(subject: Subject, service: Service) -> Check:
    """Look for what a new stack would make and what exists already: CloudFormation would fail on it."""
    check, name = f"stack.{service}", subject.settings.endpoint_name(service)
    in_the_way, remove = [], []
    with translated(f"looking for what is named {name}"):
        if _endpoint_exists(subject.aws.client("sagemaker"), name):
            in_the_way.append(f"endpoint {name} (it costs money)")
            remove.append(f"aws sagemaker delete-endpoint --endpoint-name {name}")
        group = f"/aws/sagemaker/Endpoints/{name}"
        groups = subject.aws.client("logs").describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        if any(found["logGroupName"] == group for found in groups):
            in_the_way.append(f"log group {group}")
            remove.append(f"aws logs delete-log-group --log-group-name {group}")
        path = parameter_name(subject.settings.stage, service, "").rstrip("/")
        parameters = subject.aws.client("ssm").get_parameters_by_path(Path=path)["Parameters"]
        for parameter in parameters:
            in_the_way.append(f"parameter {parameter['Name']}")
            remove.append(f"aws ssm delete-parameter --name {parameter['Name']}")
    if in_the_way:
        commands = "; ".join(f"{command} --region {subject.aws.region}" for command in remove)
        return failed(
            check,
            f"no stack {name}, but what it would create is there already: {', '.join(in_the_way)}",
            f"remove it, if nobody needs it: {commands}",
        )
    return passed(check, f"{name} is not deployed yet, and nothing has its names")


def _endpoint_exists(sagemaker: Any, name: str) -> bool:
    try:
        sagemaker.describe_endpoint(EndpointName=name)
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        return False
    return True
