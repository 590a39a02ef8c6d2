"""The demo's steps, in order."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from voice_local.cdk_cli import CdkCliError
from voice_local.demo.cloud_process import CloudProcess
from voice_local.demo.errors import DemoError
from voice_local.demo.report import DemoReport
from voice_local.demo.sentence import spoken_sentences
from voice_local.demo.voice_command import VoiceCommand
from voice_local.deployment import DeploymentError, StageDeployment, showing
from voice_local.display import Display
from voice_local.leftovers import Inventory, Resource
from voice_local.running_cloud import CloudDescription
from voice_local.word_error_rate import word_error_rate


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What a run is told."""

    project_dir: Path
    stage: str
    build_dir: Path
    """Takes the logs, the spoken WAV file and the report."""
    recording: Path
    transcript: str
    voice: Path
    """The `voice` script."""
    keep: bool
    """Leave the cloud and its endpoints running."""


class Demo:
    """One run.

    Raises (from `run`):
        DemoError: a step failed; it names the log.
    """

    def __init__(self, options: DemoOptions, display: Display) -> None:
        self._options = options
        self._display = display
        self._log = options.build_dir / "demo.log"
        self._spoken = options.build_dir / "spoken.wav"

    def run(self, cloud_process: CloudProcess) -> DemoReport:
        """Run every step; return what was measured."""
        began = time.monotonic()
        with self._display.step("Local cloud") as step:
            cloud = cloud_process.start()
            control, data = (url.partition("//")[2] for url in (cloud.control_plane, cloud.data_plane))
            step.outcome = f"control plane {control}, data plane {data}"
        deployment = self._deployment(cloud)
        voice = VoiceCommand(self._options.voice, cloud.environment(os.environ), self._log)
        with cloud_process.needed(deployment.cancel, voice.cancel), _errors_of_the_cloud(self._log):
            return self._measure(began, deployment, voice, Inventory(cloud.identity, cloud.control_plane))

    def _measure(
        self, began: float, deployment: StageDeployment, voice: VoiceCommand, inventory: Inventory
    ) -> DemoReport:
        deployment.everything(self._display)
        heard = self._transcribe_recording(voice)
        sentence, said = self._speak(voice)
        read_back = self._read_back(voice)
        left_over = []
        if not self._options.keep:
            left_over = self._take_down(deployment, inventory)
        return DemoReport(
            wer_recording=word_error_rate(self._options.transcript, heard["text"]),
            wer_roundtrip=word_error_rate(sentence, read_back["text"]),
            stt_first_partial_ms=heard["metrics"]["first_partial_ms"],
            stt_finalization_ms=heard["metrics"]["finalization_ms"],
            tts_ttfa_ms=said["metrics"]["ttfa_ms"],
            tts_rtf=said["metrics"]["rtf"],
            tts_frames=said["metrics"]["chunks"],
            seconds_total=time.monotonic() - began,
            left_over=len(left_over),
        )

    def _deployment(self, cloud: CloudDescription) -> StageDeployment:
        return StageDeployment(
            self._options.project_dir,
            self._options.stage,
            cloud,
            work_dir=self._options.build_dir,
            base_environment=os.environ,
        )

    def _transcribe_recording(self, voice: VoiceCommand) -> dict[str, Any]:
        recording = self._options.recording
        with self._display.step("voice transcribe, live") as step, step.handing_over_the_terminal() as show:
            heard = voice.result("transcribe", str(recording), "--stage", self._options.stage, show=show)
            step.outcome = f"a human recording, {heard['metrics']['audio_seconds']:.1f} s"
        self._display.details({"spoken": self._options.transcript, "heard": heard["text"]})
        return heard

    def _speak(self, voice: VoiceCommand) -> tuple[str, dict[str, Any]]:
        sentence = spoken_sentences()
        with self._display.step("voice speak") as step:
            said = voice.result("speak", sentence, "-o", str(self._spoken), "--stage", self._options.stage, show=False)
            folder = self._options.project_dir
            shown = self._spoken.relative_to(folder) if self._spoken.is_relative_to(folder) else self._spoken
            step.outcome = f"{said['metrics']['seconds']:.1f} s, in {shown}"
        self._display.details({"text": sentence})
        return sentence, said

    def _read_back(self, voice: VoiceCommand) -> dict[str, Any]:
        with self._display.step("voice transcribe, read back") as step, step.handing_over_the_terminal() as show:
            heard = voice.result("transcribe", str(self._spoken), "--stage", self._options.stage, show=show)
        self._display.details({"heard": heard["text"]})
        return heard

    def _take_down(self, deployment: StageDeployment, inventory: Inventory) -> list[Resource]:
        with self._display.step("cdk destroy --all") as step:
            deployment.destroy(showing(step))
            deleted = inventory.delete_assets()
            step.outcome = f"and the {len(deleted)} assets in bootstrap's bucket and repository"
        with self._display.step("Nothing is left") as step:
            found = inventory.resources()
            left_over = [resource for resource in found if not resource.bootstrap]
            step.outcome = (
                f"{len(left_over)} resources; of the bootstrap, {len(found) - len(left_over)} stay, as on AWS"
            )
        self._display.details(_counted(inventory.kinds(), left_over))
        if left_over:
            names = ", ".join(f"{resource.service} {resource.kind} {resource.name}" for resource in left_over)
            raise DemoError(f"{len(left_over)} resources are left after cdk destroy: {names}", self._log)
        return left_over


def _counted(kinds: list[tuple[str, str]], left_over: list[Resource]) -> dict[str, str]:
    """Return for each service that was asked how many of each kind it still has."""
    counts: dict[str, list[str]] = {}
    for service, kind in kinds:
        number = sum(1 for resource in left_over if (resource.service, resource.kind) == (service, kind))
        counts.setdefault(service, []).append(f"{kind} {number}")
    return {service: ", ".join(of_service) for service, of_service in counts.items()}


@contextmanager
def _errors_of_the_cloud(log: Path) -> Iterator[None]:
    try:
        yield
    except (CdkCliError, DeploymentError, ClientError, BotoCoreError) as error:
        raise DemoError(str(error), log) from error
