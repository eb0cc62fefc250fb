"""Batches of new keys are appended without a read of the table; no key is ever stored twice."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Deletes
from lakehouse.operations.erase_rows import erase
from lakehouse.operations.maintain import maintain
from lakehouse.storage import data_files, key_hashes, slot_writer, stored_table
from lakehouse.storage.key_hashes import KEYS_FOLDER
from lakehouse.storage.statement import session_settings
from lakehouse_tests.helpers.attacks.writers import by_new_keys, by_spark
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, counts, delete, hour, record

pytestmark = pytest.mark.invariant("3.8")
Read = list[int]
NEW, OLD = record(time=hour(100)), record(time=hour(0), temperature_2m=5.0)


@pytest.fixture(autouse=True)
def new_keys() -> Iterator[None]:
    with by_new_keys():
        yield


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Read:
    """The versions that were read to compare a batch."""
    versions: Read = []
    read_slots = data_files.read_slots

    def read(spark: Any, layout: Any, version: int, *places: Any) -> Any:
        versions.append(version)
        return read_slots(spark, layout, version, *places)

    monkeypatch.setattr(stored_table, "read_slots", read)
    return versions


@pytest.fixture
def stream(spark, broker) -> Stream:
    """A table with three batches of new keys, in two partitions."""
    stream = Stream.create(spark, broker, base=None)
    for number in range(3):
        stream.send_and_merge(record(time=hour(number)), record(time=f"2023-02-01T0{number}:00"))
    return stream


def packs(stream: Stream) -> list[Path]:
    return sorted(Path(stream.uri, KEYS_FOLDER).glob("*.keys"))


def merge_one_of_each(stream: Stream) -> dict[str, int]:
    """Merge a stored key and a new one; return the counts."""
    before = len(stream.temperatures())
    (outcome,) = stream.send_and_merge(OLD, NEW)
    assert len(stream.temperatures()) == before + 1
    stream.assert_accounted()
    return counts(outcome.entry)


def state_of(stream: Stream) -> list[Any]:
    stream.refresh()
    stream.assert_accounted()
    changes = "SELECT observed_at, change, source_version, temperature_2m_before, temperature_2m_after FROM {changes}"
    return [
        stream.temperatures(),
        [counts(entry) for entry in stream.ledger.entries],
        stream.sql(f"{changes} ORDER BY 1, 3"),
        stream.sql("SELECT * FROM {rollup} ORDER BY observed_month"),
    ]


def test_new_keys_are_appended_like_those_that_were_compared(spark, broker, compared):
    def merge(stream: Stream) -> list[Any]:
        deletes = (delete(hour(8)), delete(hour(1)))
        for batch in ((hour(0), hour(1)), (hour(2), hour(2)), (hour(3),)):
            stream.send_and_merge(*(record(time=time) for time in batch), b"{")
        stream.send_and_merge(record(time=hour(4)), *deletes[:1])
        assert not compared
        stream.send_and_merge(record(time=hour(5)), *deletes[1:])
        stream.replay()
        return state_of(stream)

    changes = {"base": None, "deletes": Deletes(when=DELETES)}
    state = merge(Stream.create(spark, broker, **changes))
    assert len(compared) == 2, "the last batch, and the replay"
    compared.clear()
    with by_spark():
        assert state == merge(Stream.create(spark, broker, **changes))


def test_a_stored_key_is_compared(stream, compared):
    assert not compared
    assert merge_one_of_each(stream)["updated"] == 1
    assert len(compared) == 1
    stream.send_and_merge(OLD, NEW)
    assert len(compared) == 2


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-8] + bytes([content[-8] ^ 1]) + content[-7:])


def test_the_other_keys_of_a_file_with_a_replaced_row_are_compared(stream, monkeypatch):
    monkeypatch.setattr(key_hashes, "_MOST_HASHES", 0)  # no pack has hashes of former files
    stream.send_and_merge(record(time=hour(30)), record(time=hour(31)))
    for time in (hour(30), hour(31)):
        stream.send_and_merge(record(time=time, temperature_2m=5.0))
    assert [stream.temperatures()[time] for time in (hour(30), hour(31))] == [5.0] * 2


DAMAGES: dict[str, Callable[[Path], None]] = {
    "torn": tear,
    "flipped": flip,
    "without its folder": lambda path: shutil.rmtree(path.parent, ignore_errors=True),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_keys_of_a_damaged_pack_are_compared(stream, compared, damage):
    for path in packs(stream):
        DAMAGES[damage](path)
    assert merge_one_of_each(stream)["updated"] == 1
    assert compared


def test_rows_that_another_program_rewrites_are_compared(stream, compared):
    stream.sql("UPDATE {t} SET temperature_2m = 1.0 WHERE day(observed_at) = 1")
    stream.send_and_merge(record(time=hour(20)))
    assert len(compared) == 1
    stream.send_and_merge(record(time=hour(21)))
    assert len(compared) == 1, "the batch before has packed the keys again"
    assert merge_one_of_each(stream)["updated"] == 1


def test_a_restore_and_the_batches_after_it_store_each_key_once(stream, compared):
    rows, version = stream.temperatures(), stream.ledger.entries[-1].version
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    stream.merge()
    assert stream.temperatures() == rows
    assert merge_one_of_each(stream)["updated"] == 1


@pytest.mark.slow
def test_maintenance_packs_the_keys_of_compacted_files(stream, compared):
    former_paths = packs(stream)
    maintain(stream.context)
    assert len(packs(stream)) == 1 and not {*packs(stream)} & {*former_paths}
    with session_settings(stream.spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        stream.sql("VACUUM {t} RETAIN 0 HOURS")
    stream.send_and_merge(record(time=hour(20)))
    assert not compared
    assert merge_one_of_each(stream)["updated"] == 1


def test_a_key_that_another_writer_adds_before_the_commit_is_stored_once(stream, monkeypatch):
    write_slots = slot_writer.write_slots

    def write(*arguments: Any) -> Any:
        monkeypatch.setattr(stored_table, "write_slots", write_slots)
        row = stream.spark.read.format("delta").load(stream.uri).limit(1)
        row = row.withColumn("observed_at", F.expr("TIMESTAMP'2023-01-05 04:00:00'"))
        row.withColumn("observed_month", F.expr("DATE'2023-01-01'")).write.format("delta").mode("append").save(
            stream.uri
        )
        return write_slots(*arguments)

    monkeypatch.setattr(stored_table, "write_slots", write)
    stream.send_and_merge(NEW)
    assert len(stream.temperatures()) == 7
    stream.send_and_merge(NEW)
    assert len(stream.temperatures()) == 7


def test_keys_of_a_batch_that_died_before_its_pack_are_compared(stream, compared, monkeypatch):
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(key_hashes, "write_pack", fail)
        stream.send_and_merge(NEW)
    assert not compared
    stream.send_and_merge(NEW)
    assert len(compared) == 1 and len(stream.temperatures()) == 7


def test_an_erasure_removes_the_hashes_of_keys(stream):
    assert packs(stream)
    erase(stream.context, "hour(observed_at) = 1")
    assert not packs(stream)
