"""A log table: every record that may enter is a row, exactly once, whatever is read again."""

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from lakehouse.batch import append, ingest
from lakehouse.batch.redrive import redrive
from lakehouse.batch.replay import replay
from lakehouse.declaration import Column
from lakehouse.delta import write
from lakehouse.derive.refresh import refresh_rollup
from lakehouse.errors import ConflictError, TableError
from lakehouse.topic import create_topic, delete_topic
from lakehouse.topic.offsets import Range
from lakehouse.upkeep.maintain import maintain
from lakehouse.upkeep.repair import propose_progress
from lakehouse.upkeep.repair import record as record_progress
from lakehouse.upkeep.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.log_tables import COLUMNS, log_table, logged
from lakehouse_tests.helpers.streams import Stream, clean_log, counts, hour, record
from lakehouse_tests.helpers.writers import by_spark

pytestmark = pytest.mark.invariant(1, 3, 7, 8, 11)


@pytest.fixture
def stream(spark, broker) -> Stream:
    made = Stream(spark, broker, log_table())
    create_topic(broker, made.table)
    return made


def operations(stream: Stream) -> list[str]:
    """What the commits of batches were, newest first."""
    entries = {entry.version: entry.commit.kind for entry in stream.ledger.entries}
    told = DeltaTable(stream.uri).history()
    newest = DeltaTable(stream.uri).version()
    return [each["operation"] for back, each in enumerate(told) if entries.get(newest - back) == "batch"]


def at_hours(*numbers: int) -> list[bytes]:
    return [record(time=hour(number), temperature_2m=float(number)) for number in numbers]


def is_right(stream: Stream) -> None:
    """Every record is accounted for, none stands twice, and the rollup is that of the rows."""
    (rollup,) = stream.table.rollups
    refresh_rollup(stream.engine, rollup)
    found = verify_rollup(stream.engine, rollup)
    assert found.passed, found.detail
    assert verify_keys(stream.engine).passed
    stream.assert_accounted()


@pytest.mark.parametrize("spark_writes", [True, False])
def test_every_record_is_a_row_with_its_hour_also_where_records_are_the_same(stream, spark_writes):
    same = record(time=hour(5), temperature_2m=None)
    stream.send(same, *at_hours(0, 30), same)
    stream.send(same, b"{", partition=1)
    with by_spark(spark_writes):
        (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=6, rejected=1, duplicate=0, inserted=5, updated=0, stale=0)
    assert operations(stream) == ["WRITE"]
    first = [(0, 0, hour(5), None), (0, 1, hour(0), 0.0), (0, 2, hour(30), 30.0), (0, 3, hour(5), None)]
    assert logged(stream) == [*first, (1, 0, hour(5), None)]
    assert stream.rejected() == [(1, 1, "truncated")]
    is_right(stream)
    stream.send(*at_hours(5))
    with by_spark(spark_writes):
        stream.merge()
    assert operations(stream) == ["WRITE", "WRITE"]
    assert stream.sql("SELECT sum(readings), max(hottest) FROM {rollup}") == [(5, 30.0)]
    is_right(stream)
    assert stream.sql("SELECT sum(readings), max(hottest) FROM {rollup}") == [(6, 30.0)]


def test_a_replay_in_any_split_writes_no_row_and_no_file(stream):
    stream.send(*at_hours(0, 1, 2, 3, 4))
    stream.merge(max_records=2)
    before, files = logged(stream), set(DeltaTable(stream.uri).file_uris())
    for size in (None, 2):
        outcomes = stream.replay(max_records=size)
        assert sum(counts(each.entry)["stale"] for each in outcomes) == 5
        assert not any(counts(each.entry)["inserted"] for each in outcomes)
    assert (logged(stream), set(DeltaTable(stream.uri).file_uris())) == (before, files)
    is_right(stream)


def test_a_batch_of_which_no_record_may_enter_is_a_commit_without_rows(stream):
    stream.send(b"{", None)
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=2, duplicate=0, inserted=0, updated=0, stale=0)
    assert stream.merge() == []
    is_right(stream)


def test_what_a_new_declaration_takes_is_redriven_once(stream):
    stream.send(*at_hours(0), record(time=hour(1), temperature_2m=99.0))
    stream.merge()
    wider = replace(stream.table, columns=[*COLUMNS[:3], replace(COLUMNS[3], between=(-100, 100))])
    stream.table = wider
    (outcome,) = redrive(stream.engine)
    assert counts(outcome.entry)["inserted"] == 1
    assert redrive(stream.engine) == []
    assert stream.rejected() == []
    assert logged(stream) == [(0, 0, hour(0), 0.0), (0, 1, hour(1), 99.0)]
    stream.replay()
    assert len(logged(stream)) == 2
    is_right(stream)


def test_rows_of_a_batch_that_a_restore_made_void_stand_once_until_all_it_read_is_read_again(stream, monkeypatch):
    stream.send(*at_hours(0))
    stream.merge()
    stream.send(*at_hours(1))
    stream.merge()
    version = stream.ledger.version
    real, restored = write.commit_append, list[object]()

    def restore_first(*args, **kwargs):
        if not restored:
            restored.append(stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version - 1}"))
        return real(*args, **kwargs)

    monkeypatch.setattr(append, "commit_append", restore_first)
    stream.send(*at_hours(2, 3, 4))
    with by_spark():  # deltalake commits on the version that was planned on, or not at all
        stream.merge(max_records=1, until={0: 3})
    assert restored
    # planned behind the second record, void, and then all from the second record on by position
    assert logged(stream) == [(0, number, hour(number), float(number)) for number in range(3)]
    assert operations(stream)[:2] == ["MERGE", "MERGE"]
    is_right(stream)
    maintain(stream.engine)
    stream.merge()
    assert logged(stream) == [(0, number, hour(number), float(number)) for number in range(5)]
    stream.send(*at_hours(5))
    stream.merge()
    assert operations(stream)[0] == "WRITE", "nothing was ever read so far"
    is_right(stream)


def test_what_a_void_batch_read_is_known_behind_a_commit_that_only_carries_on(stream, monkeypatch):
    """The void batch read two records; what lies before and in it is merged one by one, with maintenance between."""
    stream.send(*at_hours(0))
    stream.merge()
    version, real = stream.ledger.version, write.commit_append
    stream.send(*at_hours(1))
    stream.merge()
    stream.send(*at_hours(2, 3))

    def restored(*args, **kwargs):
        stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        return real(*args, **kwargs)

    with monkeypatch.context() as patch, by_spark():
        patch.setattr(append, "commit_append", restored)
        patch.setattr(ingest, "again", lambda step, *_: step())
        with pytest.raises(ConflictError, match="is void"):
            stream.merge()
    assert [row[1] for row in logged(stream)] == [0, 2, 3]
    assert stream.ledger.progress.offsets[0] == 1
    for end in (2, 3, 4):
        stream.merge(max_records=1, until={0: end})
        assert operations(stream)[0] == "MERGE"
        maintain(stream.engine)
        assert [row[1] for row in logged(stream)] == [0, 1, 2, 3]
        is_right(stream)
    assert not stream.ledger.next_commit("batch", "").reached


def test_rows_of_a_topic_and_of_the_one_made_anew_under_its_name_stand_side_by_side(stream):
    stream.send(*at_hours(0, 1))
    stream.merge()
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table)
    stream.send(*at_hours(10, 11, 12))
    stream.accept_gap()
    stream.merge()
    assert sorted(row[2] for row in logged(stream)) == [hour(number) for number in (0, 1, 10, 11, 12)]
    assert operations(stream)[0] == "WRITE", "the positions are those of another topic"
    stream.replay()
    assert len(logged(stream)) == 5
    is_right(stream)


def test_another_record_at_the_position_of_a_row_is_a_row_of_its_own(stream):
    """A broker that was rolled back gives positions again, and keeps the id of its topic."""
    stream.send(*at_hours(0, 1))
    stream.merge()
    stream.sql(
        "UPDATE {t} SET _record = named_struct('incarnation', _record.incarnation, 'partition', _record.partition,"
        " 'offset', _record.offset, 'time', _record.time - INTERVAL 1 HOUR) WHERE _record.offset = 1"
    )
    stream.replay()
    assert [row[:2] for row in logged(stream)] == [(0, 0), (0, 1), (0, 1)]
    is_right(stream)


def test_a_log_whose_history_is_gone_goes_on_without_a_row_twice(stream):
    stream.send(*at_hours(0, 1, 2))
    stream.merge()
    stream.sql("UPDATE {t} SET temperature_2m = 1 WHERE _record.offset = 0")
    clean_log(stream.uri)
    proposed = propose_progress(stream.engine)
    assert proposed.offsets[0] == 3
    # a person who does not trust it begins anew
    begun = replace(proposed, commit=proposed.commit.model_copy(update={"progress": {0: 0, 1: 0}}))
    record_progress(stream.engine, begun)
    stream.send(*at_hours(3))
    stream.merge(max_records=2)
    assert [row[:2] for row in logged(stream)] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_record_that_somebody_inserted_again_is_found(stream):
    stream.send(*at_hours(0, 1))
    stream.merge()
    stream.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _record.offset = 1")
    found = verify_keys(stream.engine)
    assert not found.passed
    assert "1" in found.detail


def test_a_table_with_a_key_does_not_become_a_log_table_nor_the_other_way_round(stream):
    log, keyed = stream.table, replace(stream.table, key=["latitude", "longitude", "observed_at"])
    stream.send(*at_hours(0))
    stream.merge()
    for first, then in ((log, keyed), (keyed, log)):
        name = f"{log.name}_{'k' if first is keyed else 'l'}"
        stream.table = replace(first, name=name)
        stream.merge()
        before = DeltaTable(stream.uri).version()
        stream.table = replace(then, name=name)
        with pytest.raises(TableError, match=r"no _record\.(base|incarnation).*table of another name"):
            stream.merge()
        assert DeltaTable(stream.uri).version() == before


def test_a_column_declared_later_is_null_in_rows_from_before(stream):
    stream.send(*at_hours(0))
    stream.merge()
    stream.table = replace(stream.table, columns=[*COLUMNS, Column("station", "STRING", doc="Its name.")])
    stream.send(record(time=hour(1), station="north"))
    stream.merge()
    assert stream.sql("SELECT station FROM {t} ORDER BY observed_at") == [(None,), ("north",)]
    is_right(stream)


def test_files_tell_which_positions_are_in_them_so_that_a_replay_reads_no_others(stream):
    """Of a few rows that deltalake wrote they tell once they are compacted."""
    for number in range(2):
        stream.send(*at_hours(number))
        with by_spark():
            stream.merge()
    files = DeltaTable(stream.uri).get_add_actions(flatten=True)
    assert sorted(files["min._record.offset"].to_pylist()) == sorted(files["max._record.offset"].to_pylist()) == [0, 1]
    (outcome,) = replay(stream.engine, [Range(0, 1, 2)])
    assert counts(outcome.entry) == dict(read=1, rejected=0, duplicate=0, inserted=0, updated=0, stale=1)
