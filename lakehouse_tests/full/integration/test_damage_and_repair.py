"""Damage by a power failure or by hand is found, and the advised command repairs it."""

import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from lakehouse.errors import AccountingError, LakehouseError, TableDamagedError, restore_advice
from lakehouse.ledger.audit import audit
from lakehouse.operations import verify
from lakehouse.operations.maintain import maintain
from lakehouse.operations.repair import propose_acceptance
from lakehouse.operations.repair import record as record_decision
from lakehouse.storage.data_files import partitions_without_codec
from lakehouse.storage.row_order import merged_layout
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.checked import Checked


@pytest.fixture
def stream(spark, broker) -> Stream:
    """Two batches."""
    new_stream = Stream.create(spark, broker, base=None)
    for number in (0, 1):
        new_stream.send_and_merge(record(time=hour(number), latitude=float(number)))
    return new_stream


@pytest.mark.invariant("1.6", "11.9")
def test_a_commit_damaged_by_a_power_failure_is_reported_restored_and_read_again(stream):
    """As after a power failure, a data file is empty and the sync marker is that of an earlier version."""
    stream.refresh()
    marker = Path(stream.uri).parent / ".locks" / f"{stream.table.name}.synced"
    synced_content, version_before, rows = marker.read_bytes(), stream.ledger.version, {*stream.temperatures()}
    stream.send_and_merge(record(time=hour(5)), record(time=hour(6)))
    marker.write_bytes(synced_content)
    (damaged_file,) = {*DeltaTable(stream.uri).file_uris()} - {
        *DeltaTable(stream.uri, version=version_before).file_uris()
    }
    os.truncate(damaged_file, 0)
    with pytest.raises(TableDamagedError, match=rf"{Path(damaged_file).name}.*Restore version {version_before}, "):
        stream.merge()
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version_before}")
    Path(damaged_file).unlink()
    stream.merge()
    assert {*stream.temperatures()} == rows | {hour(5), hour(6)}
    stream.refresh()
    row_balance = stream.sql("SELECT count_if(change = 'insert') - count_if(change = 'delete') FROM {changes}")
    assert row_balance == [(len(rows) + 2,)]
    assert verify.verify_rollup(stream.context, stream.table.rollups[0]).passed
    stream.assert_accounted()


def test_duplicate_and_misplaced_keys_are_found_and_restored(stream):
    version, rows = stream.ledger.version, stream.snapshot()
    stream.sql("INSERT INTO {t} SELECT * FROM {t}")
    duplicate_finding = verify.verify_keys(stream.context)
    assert duplicate_finding.detail.count(" has 2 rows.") == 2
    assert "1.000000, 77.600006, 2023-01-01 01:00:00 has 2 rows" in duplicate_finding.detail
    assert f"lakehouse audit {stream.table.name}" in duplicate_finding.detail
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    stream.sql("UPDATE {t} SET observed_month = DATE'2022-12-01' WHERE latitude = 1")
    misplaced_finding = verify.verify_keys(stream.context)
    assert misplaced_finding.detail.count(" is in the wrong partition 2022-12-01.") == 1
    assert restore_advice(stream.uri) in misplaced_finding.detail
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    stream.merge()
    assert verify.verify_keys(stream.context).passed, "the advised RESTORE repairs the table"
    assert stream.snapshot() == rows


def test_maintenance_rewrites_uncompressed_files_once(spark, broker, monkeypatch):
    """Also a file that is the only one of its month."""
    with monkeypatch.context() as patch:
        patch.setattr("lakehouse.storage.data_files.CODEC", "UNCOMPRESSED")
        stream = Stream.create(spark, broker, base=None)
        for number, time in enumerate((hour(0), "2023-02-03T08:00")):
            stream.send_and_merge(record(time=time, temperature_2m=float(number)))
    layout, rows = merged_layout(stream.table, stream.settings), stream.snapshot()
    assert partitions_without_codec(layout) == {"2023-01-01", "2023-02-01"}
    stream.refresh()
    first_results = maintain(stream.context)
    assert partitions_without_codec(layout) == set() and stream.snapshot() == rows
    assert all(outcome.changed == 0 for outcome in stream.refresh())
    assert (first_results[0].idle, all(result.idle for result in maintain(stream.context))) == (False, True)
    stream.assert_accounted()


@pytest.fixture
def checked_stream(spark, broker) -> Iterator[Checked]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Checked(Stream.create(spark, broker, base=None), instance)


@pytest.mark.invariant("7.5", "7.6", "7.7")
def test_a_commit_with_wrong_counts_fails_every_run_until_a_person_accepts_it(checked_stream):
    checked_stream.send(1.0, 0)
    checked_stream.run("merge")
    stream = checked_stream.stream
    row = stream.spark.read.format("delta").load(stream.uri).localCheckpoint()
    row.write.format("delta").mode("append").save(stream.uri)
    with pytest.raises(AccountingError):
        stream.replay()
    wrong_version = stream.ledger.version
    stream.sql("DELETE FROM {t}")
    row.write.format("delta").mode("append").save(stream.uri)

    for number in (1, 2):
        checked_stream.send(2.0, number)
        check = checked_stream.run("merge")["batches_accounted"]
        assert not check.passed
        assert f"Version {wrong_version}: 1 records read" in check.description
        assert f"lakehouse repair difference {stream.table.name} --version {wrong_version}" in check.description
    assert not all(finding.passed for finding in audit(stream.ledger))
    maintain(stream.context)
    assert stream.ledger.unaccounted == (wrong_version,)

    with pytest.raises(LakehouseError, match=f"Versions with a difference that is not accepted: {wrong_version}"):
        propose_acceptance(stream.settings, stream.table, [wrong_version + 1], "a guess")
    rows = stream.temperatures()
    record_decision(
        stream.context, propose_acceptance(stream.settings, stream.table, [wrong_version], "the key was doubled")
    )
    assert stream.temperatures() == rows
    assert checked_stream.run("merge")["batches_accounted"].passed
    findings = {finding.check: finding for finding in audit(stream.ledger)}
    assert all(finding.passed for finding in findings.values())
    assert "the key was doubled" in findings["records_accounted"].detail
