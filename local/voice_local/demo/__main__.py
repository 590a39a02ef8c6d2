"""`make demo`: python -m voice_local.demo [--stage S] [--keep]."""

import errno
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from voice_local.demo.children import interrupt_on_signals, no_child_left
from voice_local.demo.cloud_process import CloudProcess
from voice_local.demo.errors import DemoError
from voice_local.demo.report import DemoReport
from voice_local.demo.run import Demo, DemoOptions
from voice_local.display import Display
from voice_local.isolation import without_ways_elsewhere

RECORDINGS = Path("tests/recordings")
RECORDING = "sense_and_sensibility_01_austen_64kb-0870.wav"

WRITTEN = ("cloud", "cdk.out", "cdk-home", "cloud.log", "cdk.log", "demo.log", "spoken.wav", "report.json")
"""What a run leaves in its folder and the next one removes; anything else there is somebody's own."""

LEAST_FREE_BYTES = 50 * 10**6
"""A run writes a few MB: templates, logs, a WAV file; a disk as full as this fails in the middle of something."""

PLAIN_WIDTH = 160
"""Columns, where the output is no terminal."""

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as shells have it."""


def main(
    *,
    stage: Annotated[str, typer.Option(help="The stage to deploy.")] = "dev",
    keep: Annotated[bool, typer.Option("--keep", help="Leave the local cloud and its endpoints running.")] = False,
    build_dir: Annotated[Path, typer.Option(help="For the log, the WAV file and report.json.")] = Path("build/demo"),
) -> None:
    """Deploy both voices to a local cloud, stream real speech through them, and take everything down again.

    Exit code 0 when every step did what it should, 1 when one failed (it says where the log is), 130 after Ctrl-C.

    \b
    make demo                                     # the same as
    python -m voice_local.demo
    python -m voice_local.demo --keep --build-dir /tmp/demo
    """
    interrupt_on_signals()
    # A file or a pipe has no width to wrap at.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    display = Display(console)
    console.print(
        "[bold]sagemaker-voice[/bold]: the whole job on this machine, with no AWS account, GPU or Docker\n",
        soft_wrap=True,
    )
    kept: set[int] = set()
    try:
        with _folder(build_dir.resolve()) as (folder, lock):
            options = _options(stage, folder, keep)
            with no_child_left(kept), _cloud_process(options, lock) as cloud_process:
                report = Demo(options, display).run(cloud_process)
                if keep:
                    kept.add(cloud_process.keep())
            path = folder / "report.json"
            report.write(path)
    except KeyboardInterrupt:
        console.print("\nInterrupted; nothing is left running.")
        sys.exit(INTERRUPTED)
    except DemoError as error:
        _say_failed(console, str(error))
        first = f"; first look at {error.log}" if error.log.exists() else ""
        console.print(escape(f"The logs are in {folder}{first}."), soft_wrap=True)
        sys.exit(1)
    except OSError as error:  # no folder, no space, no file of the project
        _say_failed(console, str(error))
        sys.exit(1)
    _show(display, report, path)
    _next_steps(console, options)


def _say_failed(console: Console, reason: str) -> None:
    console.print(f"\n[red]The demo failed:[/red] {escape(reason)}", soft_wrap=True)


@contextmanager
def _folder(path: Path) -> Iterator[tuple[Path, int]]:
    """Take a folder for this run alone, without what the run before left there.

    Yields:
        The folder, and the descriptor that locks it: whoever inherits it has the folder for longer.

    Raises:
        OSError: it cannot be written, is full, or another run has it.
    """
    path.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(
                errno.EBUSY,
                "another demo runs in this folder, or the cloud that KEEP=1 left there (`voice local down` ends it); "
                "wait for it, or run this one beside it: python -m voice_local.demo --build-dir DIR",
                str(path),
            ) from None
        if (free := shutil.disk_usage(path).free) < LEAST_FREE_BYTES:
            wanted = f"{LEAST_FREE_BYTES // 10**6} MB are needed and {free // 10**6} are free"
            raise OSError(errno.ENOSPC, f"there is no room: {wanted}", str(path))
        for name in WRITTEN:
            if (path / name).is_dir():
                shutil.rmtree(path / name)
            else:
                (path / name).unlink(missing_ok=True)
        yield path, lock
    finally:
        os.close(lock)


def _options(stage: str, build_dir: Path, keep: bool) -> DemoOptions:
    project_dir = Path.cwd()
    transcripts = json.loads((project_dir / RECORDINGS / "transcripts.json").read_text(encoding="utf-8"))
    return DemoOptions(
        project_dir=project_dir,
        stage=stage,
        build_dir=build_dir,
        recording=project_dir / RECORDINGS / RECORDING,
        transcript=transcripts[RECORDING],
        voice=Path(sys.executable).with_name("voice"),
        keep=keep,
    )


def _cloud_process(options: DemoOptions, lock: int) -> CloudProcess:
    return CloudProcess(
        options.voice,
        run_dir=options.build_dir / "cloud",
        log=options.build_dir / "cloud.log",
        environment=without_ways_elsewhere(os.environ),
        keep=options.keep,
        lock=lock,
    )


def _show(display: Display, report: DemoReport, path: Path) -> None:
    display.console.print("\n[bold]Measured[/bold] (small engines on this CPU: no measure of the real models)")
    display.figures(
        [
            ("word error rate, recording", f"{report.wer_recording:.1%}", "human speech against its text"),
            ("word error rate, round trip", f"{report.wer_roundtrip:.1%}", "text spoken, then read back"),
            ("first partial", f"{report.stt_first_partial_ms:.0f} ms", "speech sent to first words"),
            ("finalization", f"{report.stt_finalization_ms:.0f} ms", "end of speech to the final text"),
            ("time to first audio", f"{report.tts_ttfa_ms:.0f} ms", "text sent to first sound"),
            ("real-time factor, voice", f"{report.tts_rtf:.2f}", f"{report.tts_frames} audio frames"),
            ("the whole run", f"{report.seconds_total:.0f} s", str(path)),
        ]
    )


def _next_steps(console: Console, options: DemoOptions) -> None:
    console.print("\n[bold]Next[/bold]")
    if options.keep:
        console.print(
            "  It is still running. In a shell of yours:\n"
            "    source .venv/bin/activate\n"
            '    eval "$(voice local env)"\n'
            f"    voice transcribe YOUR_RECORDING --stage {options.stage}\n"
            f'    voice speak "Good morning." -o morning.wav --stage {options.stage}\n'
            "    voice local down"
        )
        return
    console.print(
        "  make demo KEEP=1        the same, and it stays up for your own recordings\n"
        "  make synth              the CloudFormation that was deployed, in cdk.out/\n"
        "  make deploy             the same stacks on AWS (README.md: needs, costs)"
    )


if __name__ == "__main__":
    typer.run(main)
