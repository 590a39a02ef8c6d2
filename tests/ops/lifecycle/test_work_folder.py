"""Two deployments of one stage do not write into each other's templates and logs."""

from pathlib import Path

import pytest

from voice_ops.work_folder import FolderUnusableError, work_folder


def test_a_second_deployment_of_a_stage_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    folder = tmp_path / "deploy" / "prod"
    with (
        work_folder(folder),
        work_folder(tmp_path / "deploy" / "dev"),
        pytest.raises(FolderUnusableError, match=r"destroy of stage prod runs from this folder .* wait until"),
        work_folder(folder),
    ):
        pass

    with work_folder(folder):
        assert folder.is_dir()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "build").touch()
    with pytest.raises(FolderUnusableError, match=str(tmp_path / "build")), work_folder(tmp_path / "build" / "dev"):
        pass
