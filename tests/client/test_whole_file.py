"""Files written whole or not at all: over links, pipes, devices, and where nothing can be written."""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from voice_client.errors import BadInputError
from voice_client.whole_file import WholeFile, check_writable, write_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to("real.txt")
    write_whole(link, "first")  # it dangled until now
    write_whole(link, "second")
    assert link.is_symlink()
    assert (tmp_path / "real.txt").read_text() == "second"
    assert names(tmp_path) == ["link.txt", "real.txt"]


def test_a_file_keeps_the_rights_it_had_and_a_new_one_has_the_usual_ones(tmp_path: Path) -> None:
    private, new, usual = tmp_path / "private.txt", tmp_path / "new.txt", tmp_path / "usual"
    private.touch(0o600)
    usual.touch()
    for path in (private, new):
        write_whole(path, "words")
    assert private.stat().st_mode & 0o777 == 0o600
    assert new.stat().st_mode == usual.stat().st_mode


def test_a_pipe_is_handed_the_content_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "words " * 50_000  # more than a pipe holds
    read: list[bytes] = []
    with os.fdopen(os.open(pipe, os.O_RDWR), "rb") as end:  # for writing too: it is at no end before all has come
        with pytest.raises(ZeroDivisionError), WholeFile(pipe) as file:
            file.write(bytes(1 // 0))
        reader = threading.Thread(target=lambda: read.append(end.read(len(text))))
        reader.start()
        write_whole(pipe, text)
        reader.join()
    assert read == [text.encode()]
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_a_pipe_that_nobody_reads_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BadInputError, match="nobody reads it"):
        write_whole(pipe, "words")


def test_an_open_file_given_by_its_descriptor_is_added_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("before\n")
    with path.open("a") as shells:
        write_whole(Path(f"/dev/fd/{shells.fileno()}"), "words\n")
        inode = os.fstat(shells.fileno()).st_ino
    assert path.read_text() == "before\nwords\n"
    assert path.stat().st_ino == inode


def test_a_full_device_is_told(tmp_path: Path) -> None:
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(BadInputError, match="full cannot be written: No space left"):
        write_whole(link, "words")
    assert Path("/dev/full").is_char_device()


def test_a_name_as_long_as_names_may_be(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 127)
    write_whole(path, "words")
    assert names(tmp_path) == [path.name]


def test_what_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "astray").symlink_to("gone/away.txt")
    for name, reason in (
        (".", "is a folder"),
        ("no/such.txt", "there is no folder"),
        ("astray", "there is no folder"),
        ("circle", "cannot be written"),
        ("x" * 300, "File name too long"),
    ):
        with pytest.raises(BadInputError, match=reason):
            check_writable(tmp_path / name)


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Root may write everywhere; nobody may not."""
    if os.geteuid():
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_rights_that_are_missing_are_told_before_the_work() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, protected = Path(name), Path(name) / "protected.txt"
        protected.touch(0o444)
        folder.chmod(0o555)
        try:
            with as_an_ordinary_user():
                with pytest.raises(BadInputError, match="write-protected"):
                    check_writable(protected)
                with pytest.raises(BadInputError, match="takes no new file"):
                    check_writable(folder / "new.txt")
        finally:
            folder.chmod(0o755)
