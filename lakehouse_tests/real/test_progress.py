"""Progress is stored in the table in spite of changes to its history; the tests share one, each with its own hours."""

import os
import signal
from collections.abc import Iterator
from threading import Timer

import pytest

from lakehouse.errors import ConflictError, LedgerError
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.merge import merge_newest
from lakehouse.kafka import read_topic
from lakehouse.ledger.ledger import app_id
from lakehouse.ledger.positions import Range
from lakehouse.operations.repair import propose_progress
from lakehouse.operations.repair import record as record_decision
from lakehouse.storage import lock, spark_writer, statement, table_context
from lakehouse.storage.lock import table_lock
from lakehouse.storage.merge_spec import MergeSpec
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, clean_log, counts

FENCE = "spark.databricks.delta.write.txnAppId"


@pytest.fixture(scope="module")
def shared_stream(spark, broker) -> Stream:
    return Stream.create(spark, broker)


@pytest.fixture
def stream(shared_stream: Stream) -> Iterator[Stream]:
    """Merge all records before and after a test; the history accounts for every record."""
    shared_stream.merge()
    yield shared_stream
    shared_stream.merge()
    shared_stream.assert_accounted()


def progress_of(stream: Stream) -> int:
    """The progress of the only partition that these tests fill."""
    progress = stream.ledger.progress
    return progress.positions[0] if progress else 0


def empty_commit(stream: Stream, number: int) -> None:
    """Commit without rows under a number, as a second writer would."""
    commit = stream.ledger.next_commit("replay", "other writer").model_copy(update={"number": number})
    no_rows = stream.context.merged.rows().where("false")
    merge_newest(stream.context, no_rows, Counts(0, 0, 0, 0), commit, deletes=None)


@pytest.mark.invariant("1.1")
def test_a_batch_records_its_ranges_and_the_progress_after_it_in_its_commit(stream):
    before, number = progress_of(stream), stream.ledger.next_number
    hours = stream.send_hours(2)
    (outcome,) = stream.merge()
    commit = outcome.entry.commit
    assert commit.ranges == (Range(0, before, before + 2), Range(1, 0, 0), Range(2, 0, 0))
    assert commit.progress == {0: before + 2, 1: 0, 2: 0}
    assert (commit.number, commit.kind, commit.stream) == (number, "batch", stream.table.topic)
    assert commit.source == read_topic(stream.settings, stream.table.topic).source
    assert counts(outcome.entry) == dict(read=2, rejected=0, superseded=0, inserted=2, updated=0, stale=0)
    assert set(hours) <= set(stream.temperatures())


def test_a_second_run_finds_nothing_to_do(stream):
    version = stream.ledger.version
    assert stream.merge() == []
    assert stream.ledger.version == version


def test_an_empty_topic_gives_an_empty_table_and_no_commit_of_a_batch(spark, broker):
    empty_stream = Stream.create(spark, broker)
    assert empty_stream.merge() == []
    assert empty_stream.temperatures() == {}
    assert empty_stream.ledger.entries == ()


@pytest.mark.invariant("11.1")
def test_a_commit_number_that_is_taken_writes_nothing_and_is_an_error(stream):
    number = stream.ledger.next_number
    empty_commit(stream, number)
    version = stream.ledger.version
    with pytest.raises(ConflictError, match=f"Commit {number} .* another writer made it"):
        empty_commit(stream, number)
    assert stream.ledger.version == version


@pytest.mark.invariant("11.1")
def test_a_batch_whose_number_was_taken_is_planned_again(stream, interference):
    """Another writer commits between this batch's plan and its MERGE."""
    (hour,) = stream.send_hours(1)
    number = stream.ledger.next_number
    interference.before_reading(lambda: empty_commit(stream, number))
    (outcome,) = stream.merge()
    assert outcome.entry.commit.number == number + 1
    assert hour in stream.temperatures()


@pytest.mark.invariant("2.4")
def test_records_that_arrive_after_the_plan_belong_to_the_next_batch(stream, interference):
    before = progress_of(stream)
    stream.send_hours(1)
    interference.before_reading(lambda: stream.send_hours(1))
    (outcome,) = stream.merge()
    assert (outcome.entry.commit.read, outcome.lag_after) == (1, 0)
    assert progress_of(stream) == before + 1


@pytest.mark.invariant("11.7")
def test_a_failed_merge_leaves_no_transaction_in_the_session(stream, spark):
    commit = stream.ledger.next_commit("batch", "test")
    spec = MergeSpec("true", delete_if="s.no_such_column")
    with pytest.raises(Exception, match="DELTA_MERGE_UNRESOLVED_EXPRESSION"):
        stream.context.merged.merge(spark.range(1), spec, commit)
    for name in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata"):
        assert spark.conf.get(f"spark.databricks.delta.{name}", None) is None


@pytest.mark.invariant("11.6", "11.7")
def test_an_interrupted_merge_ends_in_spark_before_its_fence_and_lock_are_removed(stream, spark, monkeypatch):
    before, run_statement = stream.ledger, statement.run_statement
    fences: list[str | None] = []

    def run_interrupted(spark, uri, work, settings):
        def run_slowly():
            Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                spark.sql("SELECT count(*) FROM range(1000000000000) WHERE id % 7 = hash(id)").collect()
            finally:
                fences.append(spark.conf.get(FENCE, None))
            work()

        run_statement(spark, uri, run_slowly, settings)

    (hour,) = stream.send_hours(1)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(spark_writer, "run_statement", run_interrupted)
    try:
        with by_spark(), pytest.raises(KeyboardInterrupt):
            stream.merge()
    finally:
        signal.signal(signal.SIGINT, handler)
        monkeypatch.undo()
    assert fences == [app_id(stream.table.name)]
    assert spark.conf.get(FENCE, None) is None
    assert stream.ledger == before
    stream.merge()
    assert hour in stream.temperatures()


@pytest.mark.invariant("11.2")
def test_a_merge_waits_for_the_process_that_writes_the_table(stream, monkeypatch):
    monkeypatch.setattr(lock, "_PATIENCE", 0.1)
    monkeypatch.setattr(table_context, "_ATTEMPTS", 2)
    (hour,) = stream.send_hours(1)
    before = stream.ledger
    with table_lock(stream.uri, stream.table.name), pytest.raises(ConflictError, match="was locked for"):
        stream.merge()
    assert stream.ledger == before
    stream.merge()
    assert hour in stream.temperatures()


@pytest.mark.invariant("1.6")
@pytest.mark.slow
def test_after_a_restore_the_undone_records_are_merged_again(stream):
    before = stream.ledger
    for _ in range(2):
        stream.merge_hours(1)
    rows, number = stream.snapshot(), stream.ledger.next_number
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {before.version}")
    assert stream.ledger.progress == before.progress
    assert stream.ledger.foreign[0].operation == "RESTORE"
    (outcome,) = stream.merge()
    assert (outcome.entry.commit.number, outcome.entry.commit.read) == (number, 2)
    assert stream.snapshot() == rows
    assert stream.ledger.totals.read == before.totals.read + 2


@pytest.mark.invariant("1.13")
def test_a_restore_between_plan_and_commit_loses_no_record(stream, interference):
    version = stream.ledger.version
    hours = stream.merge_hours(1)
    hours += stream.send_hours(1)
    interference.before_reading(lambda: stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}"))
    stream.merge()
    assert set(hours) <= set(stream.temperatures())


@pytest.mark.invariant("1.9")
def test_commits_of_other_programs_are_skipped_and_listed(stream):
    before = progress_of(stream)
    stream.merge_hours(1)
    stream.sql("UPDATE {t} SET temperature_2m = 0")
    stream.sql("OPTIMIZE {t}")
    rows = stream.temperatures()
    (hour,) = stream.send_hours(1)
    stream.merge()
    assert progress_of(stream) == before + 2
    assert "UPDATE" in [commit.operation for commit in stream.ledger.foreign]
    assert stream.temperatures() == {**rows, hour: 20.0}


@pytest.mark.invariant("1.15")
def test_a_log_without_progress_stops_the_run_with_the_command_to_continue(stream):
    """The commits of the log are deleted; only a checkpoint of another program is left."""
    hours = set(stream.temperatures())
    (waiting_hour,) = stream.send_hours(1)
    stream.sql("UPDATE {t} SET temperature_2m = 0")
    clean_log(stream.uri)
    with pytest.raises(LedgerError, match=f"lakehouse repair progress {stream.table.name}"):
        stream.merge()
    proposal = propose_progress(stream.context)
    end = read_topic(stream.settings, stream.table.topic).end
    assert proposal.positions == {**end, 0: end[0] - 1}
    record_decision(stream.context, proposal)
    (outcome,) = stream.merge()
    assert outcome.entry.commit.read == 1
    assert set(stream.temperatures()) == hours | {waiting_hour}
