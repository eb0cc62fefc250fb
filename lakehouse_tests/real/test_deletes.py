"""Deletes: a deleted row is gone, no older record brings it back, and a newer one does."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import Deletes, FieldIs, RecordKey, Tombstone
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.operations.maintain import maintain
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.dying_deletes import DiedError, dying_after_deletes
from lakehouse_tests.helpers.attacks.writers import by_writer
from lakehouse_tests.helpers.brokers.revised_streams import delete, outcome, row, stored_deletes, stream_with_revisions
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream
from lakehouse_tests.helpers.tables.rows import rows_of


@pytest.fixture(params=["deltalake", "slots", pytest.param("Spark", marks=pytest.mark.slow)])
def stream(request: pytest.FixtureRequest, spark: SparkSession, broker: Settings) -> Iterator[Stream]:
    """A table whose records have a revision that orders them."""
    with by_writer(request.param):
        yield stream_with_revisions(spark, broker, deletes=Deletes(when=DELETES))


@pytest.mark.invariant("14.1")
def test_only_a_newer_record_brings_a_deleted_row_back(stream: Stream) -> None:
    first, second, third = stream.hours(3)
    assert outcome(stream, row(first, 1), row(second, 1), row(third, 1)) == {"read": 3, "inserted": 3}
    assert outcome(stream, delete(first, 5), delete(second, 0)) == {"read": 2, "deleted": 1, "stale": 1}
    assert set(stream.temperatures()) == {second, third}
    assert outcome(stream, row(first, 4)) == {"read": 1, "stale": 1}
    assert outcome(stream, row(first, 6), delete(third, 3), row(third, 2)) == {
        "read": 3,
        "superseded": 1,
        "inserted": 1,
        "deleted": 1,
    }
    assert set(stream.temperatures()) == {first, second}


@pytest.mark.slow
@pytest.mark.invariant("14.1")
def test_a_replay_of_deletes_changes_no_row(stream: Stream) -> None:
    first, second = stream.hours(2)
    outcome(stream, row(first, 1), row(second, 1), delete(first, 5))
    outcome(stream, row(first, 6), delete(second, 3))
    before = stream.snapshot()
    for replay_outcome in stream.replay():
        assert not {
            replay_outcome.entry.metrics.inserted,
            replay_outcome.entry.metrics.updated,
            replay_outcome.entry.metrics.deleted,
        } - {0}
    assert stream.snapshot() == before


@pytest.mark.slow
@pytest.mark.invariant("14.5")
def test_a_delete_without_a_row_keeps_an_older_insert_away(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    assert outcome(stream, delete(hour, 5)) == {"read": 1, "without_row": 1}
    assert outcome(stream, row(hour, 4)) == {"read": 1, "stale": 1}
    assert stream.temperatures() == {}
    assert stored_deletes(stream) == 1


@pytest.mark.slow
@pytest.mark.invariant("14.3")
def test_a_late_delete_erases_the_older_value_of_a_kept_column_alone(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    outcome(stream, row(hour, 1, temperature_2m=20.0))
    outcome(stream, row(hour, 5, temperature_2m=None))
    assert stream.temperatures() == {hour: 20.0}, "the column is kept"
    assert outcome(stream, delete(hour, 3)) == {"read": 1, "updated": 1}
    assert stream.temperatures() == {hour: None}
    assert outcome(stream, row(hour, 2, temperature_2m=21.0)) == {"read": 1, "stale": 1}
    assert outcome(stream, row(hour, 4, temperature_2m=22.0)) == {"read": 1, "updated": 1}
    assert stream.temperatures() == {hour: 22.0}


@pytest.mark.invariant("14.2")
def test_deletes_of_a_batch_that_died_do_not_count(stream: Stream) -> None:
    first, second = stream.hours(2)
    outcome(stream, row(first, 1), row(second, 1))
    stream.send(row(first, 2), delete(second, 2))

    with dying_after_deletes(), pytest.raises(DiedError):
        stream.merge()
    assert stored_deletes(stream) == 1
    stream.merge(max_records=1, until={0: 3})
    assert set(stream.temperatures()) == {first, second}
    assert stored_deletes(stream) == 0
    stream.merge()
    assert set(stream.temperatures()) == {first}


@pytest.mark.slow
@pytest.mark.invariant("14.2")
def test_a_restore_of_the_table_undoes_its_deletes_too(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    outcome(stream, row(hour, 1))
    version = stream.ledger.version
    outcome(stream, delete(hour, 5))
    stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
    stream.merge(until={0: 1})  # not the delete, which is read again later
    stream.send(row(hour, 3, temperature_2m=30.0))
    stream.merge(until={0: 1})
    assert set(stream.temperatures()) == {hour}
    stream.merge()
    assert stream.temperatures() == {}


@pytest.mark.slow
@pytest.mark.invariant("14.2")
def test_a_restore_to_the_creation_of_the_table_undoes_every_delete(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    outcome(stream, row(hour, 1), delete(hour, 5))
    stream.sql("RESTORE TABLE {t} TO VERSION AS OF 0")
    stream.merge(max_records=1, until={0: 1})
    assert set(stream.temperatures()) == {hour}
    stream.merge()
    assert stream.temperatures() == {}


@pytest.mark.slow
@pytest.mark.invariant("14.2")
def test_a_delete_that_a_person_erases_stays_erased(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    outcome(stream, row(hour, 1), delete(hour, 5))
    DeltaTable(stream.settings.table_uri(stream.table.deletes_name)).delete()
    assert outcome(stream, row(hour, 4)) == {"read": 1, "inserted": 1}
    assert stored_deletes(stream) == 0


@pytest.mark.slow
@pytest.mark.invariant("14.6")
def test_the_feed_and_the_rollup_follow_a_batch_that_deletes_updates_and_inserts(stream: Stream) -> None:
    first, second, third = stream.hours(3)
    outcome(stream, row(first, 1, temperature_2m=20.0), row(second, 1, temperature_2m=24.0))
    stream.refresh()
    outcome(stream, delete(first, 2), row(second, 2, temperature_2m=25.0), row(third, 1, temperature_2m=26.0))
    stream.refresh()
    changes = "SELECT change, temperature_2m_before, temperature_2m_after FROM {changes} ORDER BY source_version, 1"
    assert stream.sql(changes)[2:] == [("delete", 20.0, None), ("insert", None, 26.0), ("update", 24.0, 25.0)]
    assert stream.sql("SELECT `rows`, temperature_min FROM {rollup}") == [(2, 25.0)]


@pytest.mark.slow
@pytest.mark.invariant("14.1")
def test_records_that_are_no_deletes_any_more_become_rows_by_a_replay(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    table = stream.table
    stream.table = replace(table, deletes=Deletes(when=FieldIs("operation", ["UPDATE"])))
    assert outcome(stream, row(hour, 1), row(hour, 2, operation="UPDATE")) == {
        "read": 2,
        "superseded": 1,
        "without_row": 1,
    }
    stream.table = table
    stream.replay()
    assert set(stream.temperatures()) == {hour}
    stream.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("14.1")
def test_rows_that_are_deletes_by_a_corrected_declaration_are_deleted_by_a_replay(stream: Stream) -> None:
    first, second = stream.hours(2)
    table = stream.table
    stream.table = replace(table, deletes=Deletes(when=None))
    outcome(stream, row(first, 1, temperature_2m=20.0), row(second, 1, temperature_2m=20.0))
    outcome(stream, row(first, 2, operation="DELETE"), row(second, 2, operation="DELETE"))
    outcome(stream, row(second, 3, temperature_2m=None))
    assert set(stream.temperatures()) == {first, second}
    stream.table = table
    stream.replay()
    assert stream.temperatures() == {second: None}
    before = stream.snapshot()
    stream.replay()
    assert stream.snapshot() == before
    stream.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("4.1")
def test_records_of_a_key_with_an_equal_version_and_other_values_are_counted(stream: Stream) -> None:
    first, second, third = stream.hours(3)
    tied = [row(first, 5, temperature_2m=1.0), row(first, 5, temperature_2m=2.0)]
    sent_twice = [row(second, 5, temperature_2m=1.0)] * 2
    later_records = [row(third, 5, temperature_2m=1.0), row(third, 6, temperature_2m=2.0)]
    (merged,) = stream.send_and_merge(*tied, *sent_twice, *later_records, b"{", row(third, 7), delete(third, 7))
    stream.assert_accounted()
    commit = merged.entry.commit
    assert (commit.read, commit.rejected, commit.superseded, commit.equal_versions) == (9, 1, 5, 2)
    assert stream.temperatures() == {first: 2.0, second: 1.0}
    assert stream.ledger.totals.equal_versions == 2
    tied_with_row = [row(first, 5, temperature_2m=3.0), row(first, 5, temperature_2m=4.0)]
    (merged,) = stream.send_and_merge(*tied_with_row, row(second, 5, temperature_2m=1.0))
    assert merged.entry.commit.equal_versions == 2, "both of the first hour have the version of its stored row"
    assert stream.temperatures() == {first: 4.0, second: 1.0}


@pytest.mark.slow
@pytest.mark.invariant("14.1")
def test_another_version_column_is_refused_once_deletes_are_stored(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    outcome(stream, row(hour, 1), delete(hour, 2))
    stream.table = replace(stream.table, version=None)
    stream.send(row(hour, 3))
    with pytest.raises(TableError, match="have versions from column revision, and the declaration names .none."):
        stream.merge()


@pytest.mark.slow
def test_maintenance_keeps_the_deletes_that_count(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = stream.hours(2)
    for revision in range(1, 4):
        outcome(stream, row(first, 2 * revision), row(second, 2 * revision), delete(first, 2 * revision + 1))
    maintain(stream.context)
    assert outcome(stream, row(first, 5), row(second, 9)) == {"read": 2, "updated": 1, "stale": 1}
    assert set(stream.temperatures()) == {second}


@pytest.mark.slow
@pytest.mark.invariant("14.4")
def test_a_tombstone_deletes_the_row_of_its_record_key(spark: SparkSession, broker: Settings) -> None:
    columns = [
        replace(
            temperatures.record_columns[3], name="name", type="STRING", source=RecordKey(), required=True, between=None
        ),
        temperatures.record_columns[3],
    ]
    columns = [replace(columns[0], keep=False), columns[1]]
    stream = Stream.create(
        spark,
        broker,
        columns=columns,
        key=["name"],
        rollups=[],
        base=None,
        late=None,
        checks=[],
        partition_by=None,
        samples=None,
        deletes=Deletes(when=Tombstone()),
        partitions=1,
    )
    stream.send(b'{"temperature_2m": 1.0}', key=b"first")
    stream.send_and_merge(b'{"temperature_2m": 2.0}', key=b"second")
    stream.send(None, key=b"first")
    (merge_outcome,) = stream.send_and_merge(None, key=b"\xff")
    assert merge_outcome.entry.metrics.deleted == 1
    assert [values["name"] for values in rows_of(broker, stream.table.name)] == ["second"]
    rejected_rows = rows_of(broker, stream.table.rejected_name)
    assert [(values["key"], values["reason"]) for values in rejected_rows] == [(b"\xff", "invalid_utf8")]
    (replay_outcome,) = stream.replay()
    assert (replay_outcome.entry.commit.read, replay_outcome.entry.commit.rejected, replay_outcome.entry.stale) == (
        4,
        1,
        1,
    )
    assert replay_outcome.entry.commit.deletes_without_row == 1
