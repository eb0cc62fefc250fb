"""Runs of exports are killed, race and meet full disks: each version is published once, as a whole or not at all."""

import json
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse.errors import TableError
from lakehouse.exports.exporter import Exporter
from lakehouse.exports.manifests import STATE, list_versions, read_newest
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.export_worker import EXPORTS, Moment, settings_of, start
from lakehouse_tests.helpers.attacks.reliability import Target
from lakehouse_tests.helpers.histories.upsets import Disk, mounted
from lakehouse_tests.helpers.tables.exported import (
    append,
    apply_changes,
    data_files,
    day,
    delete,
    exported_rows,
    manifests,
    merge,
    read_version,
    rows_of_table,
)

CRASH, ONCE, LOST = "A crash loses nothing", "Two writers lose nothing", "Nothing is lost"
BOTH = ("before", "after")
MOMENTS: list[Moment] = [
    *(("exporter.read_newest", when, 0) for when in BOTH),
    *(("exporter.remove_leftovers", when, nth) for when in BOTH for nth in (0, 1)),
    ("attempts.open_rows", "before", 0),
    *(("files.write_file", when, nth) for when in BOTH for nth in (0, 1)),
    *(("files.sync_file", when, 0) for when in BOTH),
    ("attempts.lock_connection", "after", 0),
    *(("attempts.sync_names", when, 0) for when in BOTH),
    *(("files.sync_path", "after", nth) for nth in (0, 1)),
    *(("exporter.publish", when, 0) for when in BOTH),
    *(("manifests.write_draft", when, 0) for when in BOTH),
    *(("manifests.link_draft", when, 0) for when in BOTH),
    *(("manifests.sync_path", when, 0) for when in BOTH),
]
OF_WHOLE: list[Moment] = [
    ("files.ParquetWriter", "after", 0),
    *(("manifests.remove_file", when, nth) for when in BOTH for nth in (0, 1, 2)),
]
OF_CHANGES: list[Moment] = [
    *(("storage.row_changes.list_changes", when, 0) for when in BOTH),
    *(("storage.row_changes.ParquetFile", when, nth) for when in BOTH for nth in (0, 1)),
]
CASES = [
    *(("whole", moment) for moment in MOMENTS + OF_WHOLE),
    *(("changes", moment) for moment in MOMENTS + OF_CHANGES),
    *(("changes as lines", ("files.json_line", "after", nth)) for nth in (0, 3)),
]


class World:
    """A table, and an export of it with two versions that has news."""

    def __init__(self, settings: Settings, form: str) -> None:
        self.settings, self.form = settings, form
        self.exporter = Exporter(settings, EXPORTS[form])
        self.number = 0
        append(settings, *((f"s{number}", 1.0, day(1 + number % 5)) for number in range(20)))

    def change(self) -> None:
        """Insert, update and delete rows; two versions of the table."""
        self.number += 1
        merge(self.settings, (f"s{self.number}", 2.0 + self.number, day(7)), (f"n{self.number}", 1.0, None))
        delete(self.settings, f"id = 's{self.number + 9}'")

    def assert_consistent(self) -> None:
        """Every published version can be read, and continues the one before it."""
        for manifest in manifests(self.exporter.folder)[-2:]:
            read_version(self.exporter.folder, manifest.version)
        if self.form != "whole" and list_versions(self.exporter.folder):
            assert self.rows_of_reader(), "A table is never empty here"

    def assert_complete(self) -> None:
        """The newest version has every row of the table, and no file is left that no manifest names."""
        folder = self.exporter.folder
        assert self.exporter.update().kind is None
        assert self.rows_of_reader() == self.rows_of_table()
        assert data_files(folder) == {file.path for manifest in manifests(folder) for file in manifest.files}
        versions = list_versions(folder)
        assert versions == list(range(versions[0], versions[-1] + 1))
        assert {path.name for path in (folder / STATE).iterdir() if path.suffix != ".json"} == {"lock"}

    def rows_of_reader(self) -> Any:
        folder = self.exporter.folder
        rows = exported_rows(folder) if self.form == "whole" else apply_changes(folder)
        return {json.dumps(eval_row(text)): count for text, count in rows.items()}

    def rows_of_table(self) -> Any:
        return {json.dumps(eval_row(text)): count for text, count in rows_of_table(self.settings).items()}


def eval_row(text: str) -> list[str]:
    """The id and the price of a row as text, which both formats write the same."""
    return text.split(", 'sold_at'")[:1]


def world_of(path: Path, form: str, exports: Path | None = None) -> World:
    world = World(settings_of(path, exports or path / "exports"), form)
    for _ in range(2):
        world.exporter.update()
        world.change()
    return world


@pytest.mark.invariant("10.11")
@pytest.mark.parametrize(("form", "moment"), CASES, ids=[f"{form}, {moment}" for form, moment in CASES])
def test_a_rerun_after_a_kill_publishes_what_an_undisturbed_run_does(
    form: str, moment: Moment, tmp_path: Path, attack: Any
) -> None:
    world = world_of(tmp_path, form)
    with attack(CRASH, f"SIGKILL, {moment[1]} {moment[0].rpartition('.')[2]}", target=Target.EXPORTS):
        process = start(world.settings, form, moment)
        output = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"The run did not reach the moment: {output}"
        newest = read_newest(world.exporter.folder)
        assert newest is not None
        assert newest.version in (2, 3)
        world.assert_consistent()
        update = world.exporter.update()
        assert (update.version, update.kind is None) == (3, newest.version == 3)
        world.assert_complete()
        world.change()
        assert world.exporter.update().version == 4
        world.assert_complete()


@pytest.mark.invariant("10.11")
@pytest.mark.parametrize("form", ["whole", "changes"])
def test_kills_at_any_time_lose_nothing_and_publish_nothing_twice(form: str, tmp_path: Path, attack: Any) -> None:
    world, rng = world_of(tmp_path, form), random.Random(form)
    undisturbed = start(world.settings, form)
    assert "error" not in json.loads(undisturbed.communicate()[0])
    for _ in range(15):
        world.change()
        with attack(CRASH, "SIGKILL, at a random time", target=Target.EXPORTS):
            process = start(world.settings, form)
            assert wait_for_lock(world.exporter.folder, process)
            threading.Event().wait(rng.uniform(0, 0.1))
            process.kill()
            process.communicate()
            world.assert_consistent()
    world.exporter.update()
    world.assert_complete()


def wait_for_lock(folder: Path, process: Any) -> bool:
    """Whether a run began: it noted that it holds the lock, or has ended since."""
    note = folder / STATE / "lock.holder"
    deadline = threading.Event()
    for _ in range(20_000):
        if note.exists() or process.poll() is not None:
            return True
        deadline.wait(0.001)
    return False


@pytest.mark.invariant("10.11")
@pytest.mark.parametrize("form", ["whole", "changes"])
def test_of_runs_at_the_same_time_one_publishes(form: str, tmp_path: Path, attack: Any) -> None:
    world = world_of(tmp_path, form)
    for version in range(3, 9):
        with attack(ONCE, f"three runs of an export of {form} at the same time", target=Target.EXPORTS):
            processes = [start(world.settings, form) for _ in range(3)]
            results = [json.loads(process.communicate()[0]) for process in processes]
            assert [process.returncode for process in processes] == [0] * 3
            assert [result["version"] for result in results] == [version] * 3
            assert sorted(result["kind"] is None for result in results) == [False, True, True]
            world.assert_complete()
            world.change()


@pytest.mark.invariant("10.11")
@pytest.mark.parametrize("form", ["whole", "changes"])
def test_an_export_that_races_with_writers_and_readers_is_exact(form: str, tmp_path: Path, attack: Any) -> None:
    world = world_of(tmp_path, form)
    folder, is_done = world.exporter.folder, threading.Event()

    def read() -> int:
        count = 0
        while not is_done.is_set():
            newest = read_newest(folder)
            assert newest is not None
            try:
                read_version(folder, newest.version)
                count += 1
            except FileNotFoundError:  # only if two versions were published meanwhile
                assert list_versions(folder)[-1] >= newest.version + 2
        return count

    def write() -> None:
        for _ in range(20):
            world.change()
            DeltaTable(world.settings.table_uri("sales")).optimize.compact()

    with (
        attack(ONCE, f"writers and readers during exports of {form}", target=Target.EXPORTS),
        ThreadPoolExecutor() as pool,
    ):
        reader, writer = pool.submit(read), pool.submit(write)
        try:
            while not writer.done():
                world.exporter.update()
        finally:
            is_done.set()
        writer.result()
        assert reader.result()
        world.exporter.update()
        world.assert_complete()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    with mounted(tmp_path_factory.mktemp("disk") / "exports", "1m") as disk:
        yield disk


@pytest.fixture
def clean_disk(disk: Disk) -> Iterator[Disk]:
    yield disk
    disk.clear()
    for path in sorted(disk.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def failure_of(step: Callable[[], object]) -> str:
    try:
        step()
    except TableError as error:
        return str(error)
    return ""


@pytest.mark.invariant("10.11")
@pytest.mark.parametrize("form", EXPORTS)
@pytest.mark.parametrize("free_kib", range(0, 56, 4))
def test_a_full_disk_publishes_nothing_and_the_next_run_continues(
    form: str, free_kib: int, clean_disk: Disk, tmp_path: Path, attack: Any
) -> None:
    world = world_of(tmp_path, form, clean_disk.folder)
    clean_disk.fill(free_kib * 1024)
    with attack(LOST, "disk full during an export", target=Target.EXPORTS):
        message = failure_of(world.exporter.update)
        newest = read_newest(world.exporter.folder)
        assert newest is not None
        if message or not free_kib:
            assert "cannot be written: No space left on device" in message
            assert "Nothing was published. Make room" in message
            assert newest.version == 2
        world.assert_consistent()
        clean_disk.clear()
        assert world.exporter.update().version == 3
        world.assert_complete()


def test_a_read_only_disk_is_named_and_published_versions_can_be_read(
    clean_disk: Disk, tmp_path: Path, attack: Any
) -> None:
    world = world_of(tmp_path, "changes", clean_disk.folder)
    with attack("Nothing is silent", "read-only disk of an export", target=Target.EXPORTS):
        clean_disk.remount("ro")
        try:
            assert "cannot be written: Read-only file system" in failure_of(world.exporter.update)
            world.assert_consistent()
        finally:
            clean_disk.remount("rw")
        world.exporter.update()
        world.assert_complete()
