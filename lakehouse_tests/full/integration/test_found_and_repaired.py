"""What a power cut or a hand did to a table is found, and the advice makes it right."""

import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from lakehouse.errors import AccountingError, LakehouseError, TableDamagedError
from lakehouse.ledger.audit import audit
from lakehouse.operations import verify
from lakehouse.operations.maintain import maintain
from lakehouse.operations.repair import propose_acceptance
from lakehouse.operations.repair import record as record_decision
from lakehouse.storage.parquet_properties import partitions_without_codec
from lakehouse.storage.row_order import merged_layout
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.checked import Checked

pytestmark = pytest.mark.invariant(1, 10)


@pytest.fixture
def stream(spark, broker) -> Stream:
    """Two batches."""
    made = Stream.create(spark, broker, base=None)
    for number in (0, 1):
        made.send(record(time=hour(number), latitude=float(number)))
        made.merge()
    return made


def test_what_a_power_cut_took_of_a_commit_is_told_restored_and_read_again(stream):
    """As the disk is after it: a file without its bytes, and of what was synced what was known then."""
    stream.refresh()
    marker = Path(stream.uri).parent / ".locks" / f"{stream.table.name}.synced"
    known, before, rows = marker.read_bytes(), stream.ledger.version, {*stream.temperatures()}
    stream.send(record(time=hour(5)), record(time=hour(6)))
    stream.merge()
    marker.write_bytes(known)
    (torn,) = {*DeltaTable(stream.uri).file_uris()} - {*DeltaTable(stream.uri, version=before).file_uris()}
    os.truncate(torn, 0)
    with pytest.raises(TableDamagedError, match=rf"{Path(torn).name}.*TO VERSION AS OF {before}\b"):
        stream.merge()
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {before}")
    Path(torn).unlink()
    stream.merge()
    assert {*stream.temperatures()} == rows | {hour(5), hour(6)}
    stream.refresh()
    told = stream.sql("SELECT count_if(change = 'insert') - count_if(change = 'delete') FROM {changes}")
    assert told == [(len(rows) + 2,)]
    assert verify.verify_rollup(stream.context, stream.table.rollups[0]).passed
    stream.assert_accounted()


def test_a_key_that_stands_twice_or_in_another_partition_is_found_and_restored(stream):
    version, rows = stream.ledger.version, stream.snapshot()
    stream.sql("INSERT INTO {t} SELECT * FROM {t}")
    doubled = verify.verify_keys(stream.context)
    assert doubled.detail.count(" has 2 rows.") == 2
    assert f"lakehouse audit {stream.table.name}" in doubled.detail
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    stream.sql("UPDATE {t} SET observed_month = DATE'2022-12-01' WHERE latitude = 1")
    astray = verify.verify_keys(stream.context)
    assert astray.detail.count(" is in the wrong partition 2022-12-01.") == 1
    assert "RESTORE" in astray.detail
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    stream.merge()
    assert verify.verify_keys(stream.context).passed, "as advised"
    assert stream.snapshot() == rows


def test_files_that_are_not_compressed_are_written_once_more_by_maintenance(spark, broker, monkeypatch):
    """The one of a month among them, which has no other beside it."""
    with monkeypatch.context() as patch:
        patch.setattr("lakehouse.storage.parquet_properties.CODEC", "UNCOMPRESSED")
        stream = Stream.create(spark, broker, base=None)
        for nth, time in enumerate((hour(0), "2023-02-03T08:00")):
            stream.send(record(time=time, temperature_2m=float(nth)))
            stream.merge()
    layout, rows = merged_layout(stream.table, stream.settings), stream.snapshot()
    assert partitions_without_codec(layout) == {"2023-01-01", "2023-02-01"}
    stream.refresh()
    first = maintain(stream.context)
    assert partitions_without_codec(layout) == set() and stream.snapshot() == rows
    assert all(outcome.changed == 0 for outcome in stream.refresh())
    assert (first[0].idle, all(done.idle for done in maintain(stream.context))) == (False, True)
    stream.assert_accounted()


@pytest.fixture
def checked(spark, broker) -> Iterator[Checked]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Checked(Stream.create(spark, broker, base=None), instance)


def test_a_commit_that_does_not_add_up_fails_every_run_until_a_person_accepts_it(checked):
    checked.send(1.0, 0)
    checked.run("merge")
    stream = checked.stream
    row = stream.spark.read.format("delta").load(stream.uri).localCheckpoint()
    row.write.format("delta").mode("append").save(stream.uri)
    with pytest.raises(AccountingError):
        stream.replay()
    wrong = stream.ledger.version
    stream.sql("DELETE FROM {t}")
    row.write.format("delta").mode("append").save(stream.uri)

    for number in (1, 2):
        checked.send(2.0, number)
        told = checked.run("merge")["batches_accounted"]
        assert not told.passed
        assert f"Version {wrong}: 1 records read" in told.description
        assert f"lakehouse accept-difference {stream.table.name} --version {wrong}" in told.description
    assert not all(each.passed for each in audit(stream.ledger))
    maintain(stream.context)
    assert stream.ledger.unaccounted == (wrong,)

    with pytest.raises(LakehouseError, match=f"Versions with a difference that is not accepted: {wrong}"):
        propose_acceptance(stream.settings, stream.table, [wrong + 1], "a guess")
    rows = stream.temperatures()
    record_decision(stream.context, propose_acceptance(stream.settings, stream.table, [wrong], "the key was doubled"))
    assert stream.temperatures() == rows
    assert checked.run("merge")["batches_accounted"].passed
    found = {each.check: each for each in audit(stream.ledger)}
    assert all(each.passed for each in found.values())
    assert "the key was doubled" in found["accounting_read"].detail
