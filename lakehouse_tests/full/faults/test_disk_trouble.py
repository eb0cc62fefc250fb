"""Disks fail: the error is clear, every table stays at an earlier version, and the next run continues."""

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
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.attacks.deleting_streams import DeletingStream
from lakehouse_tests.helpers.brokers.streams import hour, record
from lakehouse_tests.helpers.histories.upsets import Disk, assert_all_is_right, mounted
from lakehouse_tests.helpers.tables.base_files import base_folder

LOST, SILENT = "Nothing is lost", "Nothing is silent"


@pytest.fixture(scope="module")
def disk(tmp_path_factory) -> Iterator[Disk]:
    with mounted(tmp_path_factory.mktemp("disk") / "tables", "3m") as disk:
        yield disk


@pytest.fixture(scope="module")
def disk_stream(spark, broker, disk) -> DeletingStream:
    """A table on the small disk; each test leaves every table correct and space on the disk."""
    settings = Settings(
        home=broker.home, tables=str(disk.folder), kafka_bootstrap_servers=bootstrap_servers(broker), _env_file=None
    )
    stream = DeletingStream.create(spark, settings)
    stream.send_and_merge(record(time=stream.hours(1)[0]), b"{")
    return stream


def error_message(step: Callable[[], object]) -> str:
    """The message of a step that cannot write its table, else an empty text."""
    try:
        step()
    except TableError as error:
        return str(error)
    return ""


def table_versions(stream: DeletingStream) -> dict[str, int]:
    tables = Path(stream.settings.tables_root).glob("*/_delta_log")
    return {log.parent.name: DeltaTable(log.parent).version() for log in tables}


@pytest.mark.invariant("1.17")
@pytest.mark.parametrize("free_kib", range(0, 64, 4))
def test_a_full_disk_changes_no_table_and_the_next_run_continues(disk_stream, disk, attack, free_kib):
    ledger_before = disk_stream.ledger
    hours_before, rejected_before = set(disk_stream.temperatures()), len(disk_stream.rejected())
    sent_before = disk_stream.sent_by_itself
    (new_hour,) = disk_stream.hours(1)
    disk_stream.send(record(time=new_hour), b"[")
    disk.fill(free_kib * 1024)
    with attack(LOST, "disk full during a batch"):
        message = error_message(disk_stream.merge)
        if message or not free_kib:
            assert re.search(r"^No space left on device.*/tables/t_.*Free some space and run it again", message)
            assert disk_stream.ledger == ledger_before
        disk.clear()
        disk_stream.merge()
        assert set(disk_stream.temperatures()) == {*hours_before, new_hour}
        assert len(disk_stream.rejected()) == rejected_before + 1
        sent_count = 2 + disk_stream.sent_by_itself - sent_before
        assert disk_stream.ledger.totals.read == ledger_before.totals.read + sent_count
        disk_stream.assert_accounted()


@pytest.mark.invariant("1.17", "10.6")
def test_refreshes_and_base_loads_continue_after_a_full_disk(disk_stream, disk, tmp_path, attack):
    spark, settings, table = disk_stream.spark, disk_stream.settings, disk_stream.table
    base = base_folder(tmp_path / "base", {hour(90): 9.0})
    steps: dict[str, Callable[[], object]] = {
        "the change feed": lambda: refresh.refresh_changes(TableContext(spark, settings, table)),
        "a rollup": lambda: refresh.refresh_rollup(TableContext(spark, settings, table), table.rollups[0]),
        "a base load": lambda: load_base(TableContext(spark, settings, table), base),
    }
    for state in ("it is created", "it exists"):
        for name, step in steps.items():
            with attack(LOST, f"disk full during {name}, when {state}"):
                versions_before = table_versions(disk_stream) if state == "it exists" else {}
                disk.fill()
                with pytest.raises(TableError, match="No space left on device"):
                    step()
                disk.clear()
                assert versions_before == {} or table_versions(disk_stream) == versions_before
                step()
        base_folder(tmp_path / "base", {hour(90): 10.0})
        disk_stream.send_and_merge(record(time=hour(91)))
    load_base(TableContext(spark, settings, table), base)
    disk_stream.merge()
    assert disk_stream.temperatures()[hour(90)] == 10.0
    assert_all_is_right(disk_stream)


def test_a_read_only_disk_is_read_and_not_written(disk_stream, disk, attack):
    lag = status(disk_stream.settings, disk_stream.table).lag or 0
    sent_before = disk_stream.sent_by_itself
    disk_stream.send(record(time=hour(95)))
    disk.remount("ro")
    try:
        with attack(SILENT, "read-only disk"):
            with pytest.raises(TableError, match=r"read-only file system.*Make it writable"):
                disk_stream.merge()
            new_stream = replace(disk_stream, table=replace(disk_stream.table, name="new"))
            with pytest.raises(TableError, match=r"read-only file system.*new"):
                new_stream.merge()
            assert (
                status(disk_stream.settings, disk_stream.table).lag
                == lag + 1 + disk_stream.sent_by_itself - sent_before
            )
    finally:
        disk.remount("rw")
    with attack(LOST, "read-only disk"):
        disk_stream.merge()
        assert hour(95) in disk_stream.temperatures()
