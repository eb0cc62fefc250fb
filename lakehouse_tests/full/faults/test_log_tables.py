"""A log table after a RESTORE, a topic made anew, a lost history, and what others write: no row is lost or twice."""

from dataclasses import replace

import pytest

from lakehouse.derived.refresh import refresh_rollup
from lakehouse.errors import ConflictError, LedgerError
from lakehouse.ingest import batches
from lakehouse.kafka import create_topic, delete_topic
from lakehouse.operations.maintain import maintain
from lakehouse.operations.repair import propose_progress
from lakehouse.operations.repair import record as record_progress
from lakehouse.operations.verify import verify_keys
from lakehouse.storage import spark_writer, stored_table
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import clean_log, hour
from lakehouse_tests.helpers.tables.log_tables import at_hours, is_right, logged, operations

pytestmark = pytest.mark.invariant(1, 3, 7, 8, 11)


def test_rows_of_a_batch_that_a_restore_made_void_stand_once_until_all_it_read_is_read_again(
    log_stream, monkeypatch, attack
):
    with attack("Nothing is doubled", "log table: RESTORE between the plan and the append"):
        log_stream.send(*at_hours(0))
        log_stream.merge()
        log_stream.send(*at_hours(1))
        log_stream.merge()
        version = log_stream.ledger.version
        real, restored = spark_writer.commit_append, list[object]()

        def restore_first(*args, **kwargs):
            if not restored:
                restored.append(log_stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version - 1}"))
            return real(*args, **kwargs)

        monkeypatch.setattr(stored_table, "commit_append", restore_first)
        log_stream.send(*at_hours(2, 3, 4))
        with by_spark():  # deltalake commits on the version that was planned on, or not at all
            log_stream.merge(max_records=1, until={0: 3})
        assert restored
        # planned behind the second record, void, and then all from the second record on by position
        assert logged(log_stream) == [(0, number, hour(number), float(number)) for number in range(3)]
        assert operations(log_stream)[:2] == ["MERGE", "MERGE"]
        is_right(log_stream)
        maintain(log_stream.context)
        log_stream.merge()
        assert logged(log_stream) == [(0, number, hour(number), float(number)) for number in range(5)]
        log_stream.send(*at_hours(5))
        log_stream.merge()
        assert operations(log_stream)[0] == "WRITE", "nothing was ever read so far"
        is_right(log_stream)


def test_what_a_void_batch_read_is_known_behind_a_commit_that_only_carries_on(log_stream, monkeypatch, attack):
    """The void batch read two records; what lies before and in it is merged one by one, with maintenance between."""
    with attack("Nothing is doubled", "log table: RESTORE between the plan and the append, then maintenance"):
        log_stream.send(*at_hours(0))
        log_stream.merge()
        version, real = log_stream.ledger.version, spark_writer.commit_append
        log_stream.send(*at_hours(1))
        log_stream.merge()
        log_stream.send(*at_hours(2, 3))

        def restored(*args, **kwargs):
            log_stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
            return real(*args, **kwargs)

        with monkeypatch.context() as patch, by_spark():
            patch.setattr(stored_table, "commit_append", restored)
            patch.setattr(batches, "again", lambda step, *_: step())
            with pytest.raises(ConflictError, match="is void"):
                log_stream.merge()
        assert [row[1] for row in logged(log_stream)] == [0, 2, 3]
        assert log_stream.ledger.progress.positions[0] == 1
        for end in (2, 3, 4):
            log_stream.merge(max_records=1, until={0: end})
            assert operations(log_stream)[0] == "MERGE"
            maintain(log_stream.context)
            assert [row[1] for row in logged(log_stream)] == [0, 1, 2, 3]
            is_right(log_stream)
        assert not log_stream.ledger.next_commit("batch", "").reached


def test_rows_of_a_topic_and_of_the_one_made_anew_under_its_name_stand_side_by_side(log_stream, attack):
    with attack("Nothing is lost", "log table: topic made anew"):
        log_stream.send(*at_hours(0, 1))
        log_stream.merge()
        delete_topic(log_stream.settings, log_stream.table.topic)
        create_topic(log_stream.settings, log_stream.table)
        log_stream.send(*at_hours(10, 11, 12))
        log_stream.accept_gap()
        log_stream.merge()
        assert sorted(row[2] for row in logged(log_stream)) == [hour(number) for number in (0, 1, 10, 11, 12)]
        assert operations(log_stream)[0] == "WRITE", "the positions are those of another topic"
        log_stream.replay()
        assert len(logged(log_stream)) == 5
        is_right(log_stream)


def test_another_record_at_the_position_of_a_row_is_a_row_of_its_own(log_stream, attack):
    """A broker that was rolled back gives positions again, and keeps the id of its topic."""
    with attack("Nothing is lost", "log table: another record at the position of a row"):
        log_stream.send(*at_hours(0, 1))
        log_stream.merge()
        log_stream.sql(
            "UPDATE {t} SET _record = named_struct('source', _record.source, 'partition', _record.partition,"
            " 'position', _record.position, 'sequence', _record.sequence, 'time', _record.time - INTERVAL 1 HOUR)"
            " WHERE _record.position = 1"
        )
        log_stream.replay()
        assert [row[:2] for row in logged(log_stream)] == [(0, 0), (0, 1), (0, 1)]
        is_right(log_stream)


def test_a_log_whose_history_is_gone_goes_on_without_a_row_twice(log_stream, attack):
    with attack("Nothing is doubled", "log table: its history gone"):
        log_stream.send(*at_hours(0, 1, 2))
        log_stream.merge()
        log_stream.sql("UPDATE {t} SET temperature_2m = 1 WHERE _record.position = 0")
        clean_log(log_stream.uri)
        proposed = propose_progress(log_stream.context)
        assert proposed.positions[0] == 3
        # a person who does not trust it begins anew
        begun = replace(proposed, commit=proposed.commit.model_copy(update={"progress": {0: 0, 1: 0}}))
        record_progress(log_stream.context, begun)
        log_stream.send(*at_hours(3))
        log_stream.merge(max_records=2)
        assert [row[:2] for row in logged(log_stream)] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_record_that_somebody_inserted_again_is_found(log_stream, attack):
    with attack("Nothing is silent", "log table: a row inserted again by somebody else"):
        log_stream.send(*at_hours(0, 1))
        log_stream.merge()
        log_stream.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _record.position = 1")
        found = verify_keys(log_stream.context)
        assert not found.passed
        assert "0, 1, " in found.detail
        log_stream.replay()
        assert [row[1] for row in logged(log_stream)] == [0, 1, 1]
        log_stream.assert_accounted()


@pytest.mark.parametrize("way", ["RESTORE", "each row once"])
def test_rows_that_stand_twice_since_a_commit_told_no_progress_are_found_and_repaired(log_stream, attack, way):
    with attack("Nothing is silent", f"log table: rows twice, by a commit that told no progress; repaired: {way}"):
        log_stream.send(*at_hours(0, 1))
        log_stream.merge()
        version = log_stream.ledger.version
        log_stream.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _record.position = 1")
        log_stream.send(*at_hours(2))
        log_stream.merge()
        assert not verify_keys(log_stream.context).passed
        assert [each.version for each in log_stream.ledger.foreign] == [version + 1]
        if way == "RESTORE":
            log_stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        else:
            log_stream.sql("INSERT OVERWRITE {t} SELECT DISTINCT * FROM {t}")
        log_stream.merge()
        assert [row[1] for row in logged(log_stream)] == [0, 1, 2]
        is_right(log_stream)


def test_a_topic_that_ends_before_what_was_read_is_read_again_and_no_row_stands_twice(log_stream, attack):
    """As after a broker was rolled back, with an older state of the same topic."""
    with attack("Nothing is doubled", "log table: broker rolled back: the topic ends behind the progress"):
        log_stream.send(*at_hours(0, 1, 2))
        log_stream.merge()
        beyond = log_stream.ledger.next_commit("recovery", "test").model_copy(update={"progress": {0: 9, 1: 0}})
        log_stream.context.merged.commit_nothing(beyond)
        log_stream.accept_gap()
        for number in range(3, 11):
            log_stream.send(*at_hours(number))
            log_stream.merge(max_records=2)
        assert [row[:2] for row in logged(log_stream)] == [(0, number) for number in range(11)]
        assert operations(log_stream)[0] == "WRITE"
        is_right(log_stream)


def test_a_copy_of_a_log_without_its_history_says_what_to_do_and_goes_on_without_a_row_twice(log_stream, attack):
    with attack("Nothing is doubled", "log table: a copy of it without its history"):
        log_stream.send(*at_hours(0, 1))
        log_stream.merge()
        copy = replace(log_stream.table, name=f"{log_stream.table.name}_copy")
        uri = log_stream.settings.table_uri(copy.name)
        log_stream.sql(f"CREATE TABLE delta.`{uri}` USING DELTA PARTITIONED BY (observed_day) AS SELECT * FROM {{t}}")
        log_stream.table = copy
        with pytest.raises(LedgerError, match=f"lakehouse recover-progress {copy.name}"):
            log_stream.merge()
        record_progress(log_stream.context, propose_progress(log_stream.context))
        log_stream.send(*at_hours(2))
        log_stream.merge()
        assert [row[1] for row in logged(log_stream)] == [0, 1, 2]


def test_rows_that_somebody_else_wrote_without_a_record_are_rows_as_any(log_stream, attack):
    with attack("Nothing is silent", "log table: rows of somebody else, without a record"):
        log_stream.send(*at_hours(0))
        log_stream.merge()
        is_right(log_stream)
        log_stream.sql(
            "INSERT INTO {t} (latitude, longitude, observed_at, observed_day)"
            " VALUES (1, 1, TIMESTAMP'2023-01-01', DATE'2023-01-01'), (1, 1, TIMESTAMP'2023-02-01', DATE'2023-02-01')"
        )
        (rollup,) = log_stream.table.rollups
        refresh_rollup(log_stream.context, rollup)
        assert log_stream.sql("SELECT readings FROM {rollup} ORDER BY observed_day") == [(2,), (1,)]
        assert not verify_keys(log_stream.context).passed, "nobody knows what they are"
        source = log_stream.ledger.progress.source
        clean_log(log_stream.uri)
        assert propose_progress(log_stream.context).commit.reached == {source.text: {0: 1}}
