"""Disks fail: a clear error, every table at a version it had, and the next run goes on."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.derived import refresh
from lakehouse.errors import TableError
from lakehouse.ingest.load import load_base
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.histories.upsets import Disk, assert_all_is_right, mounted
from lakehouse_tests.helpers.tables.base_files import base_folder

pytestmark = pytest.mark.invariant(1)

LOST, SILENT = "Nothing is lost", "Nothing is silent"


@pytest.fixture(scope="module")
def disk(tmp_path_factory) -> Iterator[Disk]:
    with mounted(tmp_path_factory.mktemp("disk") / "tables", "3m") as disk:
        yield disk


@pytest.fixture(scope="module")
def on_disk(spark, broker, disk) -> Stream:
    """A table on the small disk; each test leaves every table right and space on the disk."""
    settings = Settings(
        home=broker.home, tables=str(disk.folder), kafka_bootstrap_servers=bootstrap_servers(broker), _env_file=None
    )
    stream = Stream.create(spark, settings)
    stream.send(record(time=stream.hours(1)[0]), b"{")
    stream.merge()
    return stream


def complaint(step: Callable[[], object]) -> str:
    """What a step says of the table it cannot write; nothing where it can."""
    try:
        step()
    except TableError as error:
        return str(error)
    return ""


def versions(stream: Stream) -> dict[str, int]:
    tables = Path(stream.settings.tables_root).glob("*/_delta_log")
    return {log.parent.name: DeltaTable(log.parent).version() for log in tables}


@pytest.mark.parametrize("left", range(0, 64, 4))
def test_a_full_disk_leaves_the_tables_as_they_are_and_the_next_run_goes_on(on_disk, disk, attack, left):
    before, rows, rejected = on_disk.ledger, set(on_disk.temperatures()), len(on_disk.rejected())
    (new,) = on_disk.hours(1)
    on_disk.send(record(time=new), b"[")
    disk.fill(left * 1024)
    with attack(LOST, "disk full during a batch"):
        said = complaint(on_disk.merge)
        if said or not left:
            assert re.search(r"^No space left on device.*/tables/t_.*Free some space and run it again", said)
            assert on_disk.ledger == before
        disk.clear()
        on_disk.merge()
        assert set(on_disk.temperatures()) == {*rows, new}
        assert len(on_disk.rejected()) == rejected + 1
        assert on_disk.ledger.totals.read == before.totals.read + 2
        on_disk.assert_accounted()


def test_a_full_disk_stops_what_is_derived_and_loaded_and_they_go_on(on_disk, disk, tmp_path, attack):
    spark, settings, table = on_disk.spark, on_disk.settings, on_disk.table
    base = base_folder(tmp_path / "base", {hour(90): 9.0})
    steps: dict[str, Callable[[], object]] = {
        "the change feed": lambda: refresh.refresh_changes(TableContext(spark, settings, table)),
        "a rollup": lambda: refresh.refresh_rollup(TableContext(spark, settings, table), table.rollups[0]),
        "a base load": lambda: load_base(TableContext(spark, settings, table), base),
    }
    for when in ("it is made", "it is there"):
        for name, step in steps.items():
            with attack(LOST, f"disk full during {name}, when {when}"):
                before = versions(on_disk) if when == "it is there" else {}
                disk.fill()
                with pytest.raises(TableError, match="No space left on device"):
                    step()
                disk.clear()
                assert before == {} or versions(on_disk) == before
                step()
        base_folder(tmp_path / "base", {hour(90): 10.0})
        on_disk.send(record(time=hour(91)))
        on_disk.merge()
    load_base(TableContext(spark, settings, table), base)
    on_disk.merge()
    assert on_disk.temperatures()[hour(90)] == 10.0
    assert_all_is_right(on_disk)


def test_a_read_only_disk_is_read_and_not_written(on_disk, disk, attack):
    lag = status(on_disk.settings, on_disk.table).lag or 0
    on_disk.send(record(time=hour(95)))
    disk.remount("ro")
    try:
        with attack(SILENT, "read-only disk"):
            with pytest.raises(TableError, match=r"read-only file system.*Make it writable"):
                on_disk.merge()
            new = replace(on_disk, table=replace(on_disk.table, name="new"))
            with pytest.raises(TableError, match=r"read-only file system.*new"):
                new.merge()
            assert status(on_disk.settings, on_disk.table).lag == lag + 1
    finally:
        disk.remount("rw")
    with attack(LOST, "read-only disk"):
        on_disk.merge()
        assert hour(95) in on_disk.temperatures()
