"""One stage of the project, deployed to a local cloud with the real CDK CLI."""

from collections.abc import Mapping
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from voice_local.cdk_cli import CdkCli, CdkStep, StepListener
from voice_local.display import Display, Step
from voice_local.isolation import isolated_client
from voice_local.running_cloud import CloudDescription, CloudEndpoints

VOICES = ("stt", "tts")


class DeploymentError(Exception):
    """The stage cannot be deployed from here, or its stacks did not leave what clients look for."""


class StageDeployment:
    """Bootstrap, deploy and destroy of one stage.

    Args:
        project_dir: holds cdk.json and node_modules.
        stage: a stage of the project's settings.
        cloud: where to deploy to.
        work_dir: holds the synthesized templates and the CLI's log; made when missing.
        base_environment: what child processes inherit, without whatever could lead elsewhere.
    """

    def __init__(
        self,
        project_dir: Path,
        stage: str,
        cloud: CloudDescription,
        *,
        work_dir: Path,
        base_environment: Mapping[str, str],
    ) -> None:
        if not (project_dir / "cdk.json").is_file():
            raise DeploymentError(f"There is no cdk.json in {project_dir}: run this in the project's folder.")
        work_dir.mkdir(parents=True, exist_ok=True)
        self.stage = stage
        self.log = work_dir / "cdk.log"
        self._cloud = cloud
        self._identity = cloud.identity
        self._templates = work_dir / "cdk.out"
        environment = cloud.environment(base_environment)
        self._app_cli = CdkCli(project_dir, environment, self.log, context={"stage": stage})
        self._cli = CdkCli(project_dir, environment, self.log, app=self._templates)

    def bootstrap(self, on_step: StepListener | None = None) -> None:
        """Run `cdk bootstrap`."""
        self._cli.bootstrap(self._identity.account_id, self._identity.region, on_step)

    def synth(self) -> None:
        """Run `cdk synth`; the later commands use its templates."""
        self._app_cli.synth(self._templates)

    def deploy(self, on_step: StepListener | None = None) -> None:
        """Run `cdk deploy --all`; returns when both endpoints are in service."""
        self._cli.deploy(on_step=on_step)

    def destroy(self, on_step: StepListener | None = None) -> None:
        """Run `cdk destroy --all`."""
        self._cli.destroy(on_step=on_step)

    def cancel(self) -> None:
        """End the command that runs now, from another thread; it raises in its own."""
        for cli in (self._app_cli, self._cli):
            cli.cancel()

    def endpoints(self) -> CloudEndpoints:
        """Return the endpoints' names, as the stacks wrote them for clients.

        Raises:
            DeploymentError: a parameter is not there.
        """
        ssm = isolated_client("ssm", identity=self._identity, endpoint_url=self._cloud.control_plane)
        names = {}
        for voice in VOICES:
            parameter = f"/sagemaker-voice/{self.stage}/{voice}/endpoint-name"
            try:
                names[voice] = str(ssm.get_parameter(Name=parameter)["Parameter"]["Value"])
            except (ClientError, BotoCoreError) as error:
                raise DeploymentError(f"The stacks left no parameter {parameter}: {error}") from error
        return CloudEndpoints(stt=names["stt"], tts=names["tts"])

    def everything(self, display: Display) -> CloudEndpoints:
        """Synthesize, bootstrap and deploy; return the endpoints' names."""
        with display.step("cdk synth"):
            self.synth()
        with display.step("cdk bootstrap") as step:
            self.bootstrap(showing(step))
        with display.step("cdk deploy --all") as step:
            self.deploy(showing(step))
            endpoints = self.endpoints()
            step.outcome = f"in service: {endpoints.stt}, {endpoints.tts}"
        return endpoints


def showing(step: Step) -> StepListener:
    """Return a listener that shows each stack event as the progress of a step."""

    def show(event: CdkStep) -> None:
        step.progress(f"{event.stack}: {event.resource_type} {event.status}")

    return show
