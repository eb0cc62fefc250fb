"""What a folder has and a run cannot read: it is named in a warning, and never taken for a file that was removed."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest

from lakehouse.declaration import Files
from lakehouse.errors import SourceError
from lakehouse.sources.files.folder import FileLog, Folder
from lakehouse.sources.files.listing import FileFacts, Listing, list_files
from lakehouse.sources.files.source import warn_of_left_out

FILES = Files("in", names="*.json", settle=timedelta(0))
DENIED = "Permission denied"
EMPTY_LOG = FileLog()
MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - its files may have any time


@contextmanager
def without_access(*paths: Path) -> Iterator[None]:
    """Remove all access to files and folders; root becomes another user meanwhile."""
    is_root, modes = os.geteuid() == 0, [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files a.json, b/c.json and b/d.json, which another user may read."""
    for parent in tmp_path.parents:
        if parent.name.startswith(("pytest-", "popen-")) and parent.stat().st_uid == os.geteuid():
            parent.chmod(0o755)
    tmp_path.chmod(0o755)
    for name in ("a.json", "b/c.json", "b/d.json"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"12345")
    return tmp_path


def folder_now(folder: Path, log: FileLog = EMPTY_LOG) -> Folder:
    return Folder(FILES, log, list_files(str(folder), FILES), root=str(folder))


def test_files_and_folders_that_cannot_be_read_are_left_out_with_the_reason(folder: Path) -> None:
    (folder / "gone.json").symlink_to("nowhere")
    (folder / "other").symlink_to("nowhere")
    (folder / "itself.json").symlink_to("itself.json")
    (folder / "caf\udce9.json").write_bytes(b"1")
    (folder / "caf\udce9.txt").write_bytes(b"1")
    (folder / "caf\udce9").mkdir()
    with without_access(folder / "a.json", folder / "b"):
        folder_state = folder_now(folder)
        assert folder_state.left_out == {
            "a.json": DENIED,
            "b": DENIED,
            "gone.json": "No such file or directory",
            "itself.json": "Too many levels of symbolic links",
            "caf\udce9.json": "its name is not UTF-8",
            "caf\udce9": "its name is not UTF-8",
        }
        assert folder_state.unnumbered == {}
    assert sorted(folder_now(folder).unnumbered) == ["a.json", "b/c.json", "b/d.json"]


@pytest.mark.skipif(not MEMORY_DISK.is_dir(), reason="no other disk has files of such times")
def test_a_file_with_a_time_that_no_table_can_hold_is_left_out() -> None:
    last_second = 253_402_300_799
    with TemporaryDirectory(dir=MEMORY_DISK) as name:
        for file, seconds in (("last", last_second), ("late", last_second + 1)):
            Path(name, f"{file}.json").touch()
            os.utime(Path(name, f"{file}.json"), (seconds, seconds))
        folder_state = folder_now(Path(name))
        assert folder_state.left_out == {"late.json": "its time is outside of the years 1 to 9999"}
        assert [*folder_state.unnumbered] == ["last.json"]


def test_files_in_a_folder_that_cannot_be_read_are_not_taken_for_removed(folder: Path) -> None:
    facts = list_files(str(folder), FILES).facts
    newest = {path: (number, *facts[path][:2]) for number, path in enumerate(sorted(facts))}
    log = FileLog("id", 1, 3, newest)
    with without_access(folder / "b"):
        with pytest.raises(SourceError, match=r"b cannot be read, and b/c\.json has a number .*: Permission denied"):
            folder_now(folder, log).state(1, is_new=False)
        assert folder_now(folder, log).state(3, is_new=False).sizes == {0: 5}, "the others were merged before"
    state = folder_now(folder, log).state(1, is_new=False)
    assert (sorted(state.sizes), state.removed) == ([0, 1, 2], {})


def test_a_link_to_nothing_in_the_place_of_a_file_is_a_removed_file() -> None:
    listing = Listing({"a": FileFacts(1, 1, 1)}, {"b": os.strerror(2)})
    log = FileLog("id", 1, 2, {"a": (0, 1, 1), "b": (1, 1, 1)})
    assert Folder(FILES, log, listing).state(1, is_new=False).removed == {1: "b"}


def test_a_run_warns_once_of_what_is_left_out_with_a_few_paths_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    uri, reasons = uuid4().hex, {f"{number}\n\udce9.json": DENIED for number in range(8)}
    with caplog.at_level(logging.WARNING):
        for run, shown_reasons in (
            ("1", reasons),
            ("1", reasons),
            ("1", {"a.json": DENIED}),
            ("2", {"a.json": DENIED}),
        ):
            warn_of_left_out(uri, run, "heart", shown_reasons)
        warn_of_left_out(uri, "2", "heart", {})
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first.startswith("8 paths in the folder heart are left out: 0\\n\\xe9.json (Permission denied), 1")
    assert first.endswith("4\\n\\xe9.json (Permission denied), 3 more paths")
    assert second == third == "1 path in the folder heart is left out: a.json (Permission denied)"
