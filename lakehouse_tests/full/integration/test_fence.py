"""One writer per table, and a fence where there are two; RESTORE puts the progress back."""

from dataclasses import replace

import pytest

from lakehouse import ingest
from lakehouse.counts import NOTHING
from lakehouse.delta import commit_merge, read_table
from lakehouse.errors import ConflictError, LedgerError
from lakehouse.merge import Target, merge_rows
from lakehouse.order import merged_layout
from lakehouse_tests.helpers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(1, 11)


@pytest.fixture
def stream(spark, broker):
    stream = Stream.create(spark, broker)
    stream.send(record(time=hour(0)))
    stream.merge()
    return stream


def empty_commit(stream: Stream, number: int) -> None:
    """What a second writer does that takes a number: commit under it."""
    commit = stream.ledger.next_commit("replay", "other writer").model_copy(update={"number": number})
    target = Target(stream.table, merged_layout(stream.table, stream.settings))
    merge_rows(stream.spark, target, read_table(stream.spark, target.layout).where("false"), NOTHING, commit)


def test_a_number_that_is_taken_writes_nothing_and_says_so(stream):
    empty_commit(stream, 2)
    version = stream.ledger.version
    with pytest.raises(ConflictError, match="Commit 2 .* made by another writer"):
        empty_commit(stream, 2)
    assert stream.ledger.version == version


def test_a_batch_whose_number_was_taken_is_planned_again(stream, monkeypatch):
    """Another writer commits between this batch's plan and its MERGE."""
    stream.send(record(time=hour(1)))
    taken = []

    def slow_read(*arguments):
        if not taken:
            taken.append(True)
            empty_commit(stream, stream.ledger.next_number)
        return read_records(*arguments)

    read_records = ingest.read_records
    monkeypatch.setattr(ingest, "read_records", slow_read)
    (outcome,) = stream.merge()
    assert outcome.entry.commit.number == 3
    assert set(stream.temperatures()) == {hour(0), hour(1)}
    stream.assert_accounted()


def test_the_session_is_left_without_a_transaction_also_after_a_failure(stream, spark):
    commit = stream.ledger.next_commit("batch", "test")
    layout = merged_layout(stream.table, stream.settings)
    with pytest.raises(Exception, match="DELTA_MERGE_UNRESOLVED_EXPRESSION"):
        commit_merge(spark, layout, spark.range(1), "ON s.no_such_column WHEN MATCHED THEN DELETE", commit)
    for name in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata"):
        assert spark.conf.get(f"spark.databricks.delta.{name}", None) is None


def test_after_a_restore_the_undone_records_are_merged_again(stream, spark):
    for number in (1, 2):
        stream.send(record(time=hour(number)))
        stream.merge()
    rows = stream.snapshot()
    stream.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
    assert stream.ledger.progress.offsets[0] == 1
    (outcome,) = stream.merge()
    assert outcome.entry.commit.number == 4
    assert stream.snapshot() == rows
    assert stream.ledger.totals.read == 3
    assert [commit.operation for commit in stream.ledger.foreign] == ["RESTORE"]
    stream.assert_accounted()


def test_a_restore_between_plan_and_commit_loses_no_record(stream, monkeypatch):
    stream.send(record(time=hour(1)))
    stream.merge()
    stream.send(record(time=hour(2)))
    restored = []

    def slow_read(*arguments):
        if not restored:
            restored.append(True)
            stream.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
        return read_records(*arguments)

    read_records = ingest.read_records
    monkeypatch.setattr(ingest, "read_records", slow_read)
    stream.merge()
    assert set(stream.temperatures()) == {hour(0), hour(1), hour(2)}
    stream.assert_accounted()


def test_a_restore_to_the_creation_starts_at_the_first_record(stream):
    stream.sql("RESTORE TABLE {t} TO VERSION AS OF 0")
    assert stream.ledger.progress is None
    stream.merge()
    assert set(stream.temperatures()) == {hour(0)}


def test_foreign_commits_between_ours_are_passed_and_named(stream):
    stream.sql("UPDATE {t} SET temperature_2m = 0")
    stream.sql("OPTIMIZE {t}")
    stream.send(record(time=hour(1)))
    stream.merge()
    assert stream.ledger.progress.offsets[0] == 2
    assert [commit.operation for commit in stream.ledger.foreign][-1] == "UPDATE"


def test_a_log_that_no_longer_tells_the_progress_stops_with_the_command_that_goes_on(stream):
    """The commits of the log are gone, a checkpoint is all that is left: as after log retention."""
    from pathlib import Path

    from deltalake import DeltaTable

    stream.sql("UPDATE {t} SET temperature_2m = 0")
    DeltaTable(stream.uri).create_checkpoint()
    version = stream.ledger.version
    for log in Path(stream.uri, "_delta_log").glob("*.json"):
        if int(log.stem) < version:
            log.unlink()
    with pytest.raises(LedgerError, match="lakehouse recover-progress"):
        stream.merge()


def test_records_that_come_after_the_plan_belong_to_the_next_batch(stream, monkeypatch):
    stream.send(record(time=hour(1)))

    def slow_read(*arguments):
        stream.send(record(time=hour(2)))
        return read_records(*arguments)

    read_records = ingest.read_records
    monkeypatch.setattr(ingest, "read_records", slow_read)
    (outcome,) = stream.merge()
    assert (outcome.entry.commit.read, outcome.lag_after) == (1, 0)
    assert stream.ledger.progress.offsets[0] == 2


def test_a_changed_type_is_refused_with_both_types(stream):
    from lakehouse.errors import TableError

    columns = [*stream.table.columns[:3], replace(stream.table.columns[3], type="BIGINT")]
    stream.table = replace(stream.table, columns=columns)
    with pytest.raises(TableError, match="temperature_2m is double in the table and bigint"):
        stream.merge()
