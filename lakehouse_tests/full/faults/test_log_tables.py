"""A log table after a RESTORE, a recreated topic, a lost history and foreign writes: no row is lost or duplicated."""

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
from lakehouse_tests.helpers.tables.log_tables import at_hours, is_right, list_rows, operations


@pytest.mark.invariant("1.13", "4.5")
def test_a_batch_voided_by_a_restore_is_merged_again_without_duplicates(log_stream, monkeypatch, attack):
    with attack("Nothing is doubled", "log table: RESTORE between the plan and the append"):
        log_stream.send_and_merge(*at_hours(0))
        log_stream.send_and_merge(*at_hours(1))
        version = log_stream.ledger.version
        real_commit, restore_results = spark_writer.commit_append, list[object]()

        def restore_first(*args, **kwargs):
            if not restore_results:
                restore_results.append(log_stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version - 1}"))
            return real_commit(*args, **kwargs)

        monkeypatch.setattr(stored_table, "commit_append", restore_first)
        log_stream.send(*at_hours(2, 3, 4))
        with by_spark():  # deltalake would commit only on the planned version
            log_stream.merge(max_records=1, until={0: 3})
        assert restore_results
        # the append was void; then all records from the second on were merged by position
        assert list_rows(log_stream) == [(0, number, hour(number), float(number)) for number in range(3)]
        assert operations(log_stream)[:2] == ["MERGE", "MERGE"]
        is_right(log_stream)
        maintain(log_stream.context)
        log_stream.merge()
        assert list_rows(log_stream) == [(0, number, hour(number), float(number)) for number in range(5)]
        log_stream.send_and_merge(*at_hours(5))
        assert operations(log_stream)[0] == "WRITE", "no record was read this far before"
        is_right(log_stream)


@pytest.mark.invariant("1.12", "1.13")
def test_maintenance_keeps_the_ranges_that_a_void_batch_read(log_stream, monkeypatch, attack):
    """The void batch read two records; the records before and in it are merged one by one, with maintenance between."""
    with attack("Nothing is doubled", "log table: RESTORE between the plan and the append, then maintenance"):
        log_stream.send_and_merge(*at_hours(0))
        version, real_commit = log_stream.ledger.version, spark_writer.commit_append
        log_stream.send_and_merge(*at_hours(1))
        log_stream.send(*at_hours(2, 3))

        def restore_and_commit(*args, **kwargs):
            log_stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
            return real_commit(*args, **kwargs)

        with monkeypatch.context() as patch, by_spark():
            patch.setattr(stored_table, "commit_append", restore_and_commit)
            patch.setattr(batches, "retry_on_conflict", lambda step, *_: step())
            with pytest.raises(ConflictError, match="is void"):
                log_stream.merge()
        assert [row[1] for row in list_rows(log_stream)] == [0, 2, 3]
        assert log_stream.ledger.progress.positions[0] == 1
        for end in (2, 3, 4):
            log_stream.merge(max_records=1, until={0: end})
            assert operations(log_stream)[0] == "MERGE"
            maintain(log_stream.context)
            assert [row[1] for row in list_rows(log_stream)] == [0, 1, 2, 3]
            is_right(log_stream)
        assert not log_stream.ledger.next_commit("batch", "").reached


@pytest.mark.invariant("4.5")
def test_rows_of_a_topic_and_of_its_recreation_are_both_in_the_table(log_stream, attack):
    with attack("Nothing is lost", "log table: topic deleted and created again"):
        log_stream.send_and_merge(*at_hours(0, 1))
        delete_topic(log_stream.settings, log_stream.table.topic)
        create_topic(log_stream.settings, log_stream.table)
        log_stream.send(*at_hours(10, 11, 12))
        log_stream.accept_gap()
        log_stream.merge()
        assert sorted(row[2] for row in list_rows(log_stream)) == [hour(number) for number in (0, 1, 10, 11, 12)]
        assert operations(log_stream)[0] == "WRITE", "the positions are those of another topic"
        log_stream.replay()
        assert len(list_rows(log_stream)) == 5
        is_right(log_stream)


@pytest.mark.invariant("4.5")
def test_another_record_at_the_position_of_a_row_becomes_a_second_row(log_stream, attack):
    """A restored broker assigns the same positions again and keeps the id of its topic."""
    with attack("Nothing is lost", "log table: another record at the position of a row"):
        log_stream.send_and_merge(*at_hours(0, 1))
        log_stream.sql(
            "UPDATE {t} SET _record = named_struct('source', _record.source, 'partition', _record.partition,"
            " 'position', _record.position, 'sequence', _record.sequence, 'time', _record.time - INTERVAL 1 HOUR,"
            " 'order_time', _record.order_time)"
            " WHERE _record.position = 1"
        )
        log_stream.replay()
        assert [row[:2] for row in list_rows(log_stream)] == [(0, 0), (0, 1), (0, 1)]
        is_right(log_stream)


@pytest.mark.invariant("1.15", "4.5")
def test_a_log_table_without_its_history_continues_without_duplicates(log_stream, attack):
    with attack("Nothing is doubled", "log table: its history gone"):
        log_stream.send_and_merge(*at_hours(0, 1, 2))
        log_stream.sql("UPDATE {t} SET temperature_2m = 1 WHERE _record.position = 0")
        clean_log(log_stream.uri)
        proposal = propose_progress(log_stream.context)
        assert proposal.positions[0] == 3
        # a person who does not trust the proposal starts at the beginning
        first_positions = replace(proposal, commit=proposal.commit.model_copy(update={"progress": {0: 0, 1: 0}}))
        record_progress(log_stream.context, first_positions)
        log_stream.send(*at_hours(3))
        log_stream.merge(max_records=2)
        assert [row[:2] for row in list_rows(log_stream)] == [(0, 0), (0, 1), (0, 2), (0, 3)]


@pytest.mark.invariant("4.5")
def test_the_key_check_finds_a_record_that_was_inserted_again(log_stream, attack):
    with attack("Nothing is silent", "log table: a row inserted again by another program"):
        log_stream.send_and_merge(*at_hours(0, 1))
        log_stream.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _record.position = 1")
        finding = verify_keys(log_stream.context)
        assert not finding.passed
        assert "0, 1, " in finding.detail
        log_stream.replay()
        assert [row[1] for row in list_rows(log_stream)] == [0, 1, 1]
        log_stream.assert_accounted()


@pytest.mark.invariant("1.9")
@pytest.mark.parametrize("repair", ["RESTORE", "each row once"])
def test_duplicates_of_a_commit_without_progress_are_found_and_repaired(log_stream, attack, repair):
    with attack("Nothing is silent", f"log table: rows twice, by a commit without progress; repaired: {repair}"):
        log_stream.send_and_merge(*at_hours(0, 1))
        version = log_stream.ledger.version
        log_stream.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _record.position = 1")
        log_stream.send_and_merge(*at_hours(2))
        finding = verify_keys(log_stream.context)
        assert not finding.passed
        assert "every record has one row" in finding.detail and "Key " not in finding.detail
        assert [commit_info.version for commit_info in log_stream.ledger.foreign] == [version + 1]
        if repair == "RESTORE":
            log_stream.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        else:
            log_stream.sql("INSERT OVERWRITE {t} SELECT DISTINCT * FROM {t}")
        log_stream.merge()
        assert [row[1] for row in list_rows(log_stream)] == [0, 1, 2]
        is_right(log_stream)


@pytest.mark.invariant("4.5")
def test_a_topic_that_ends_before_the_progress_is_read_again_without_duplicates(log_stream, attack):
    """A broker that was restored from an older copy has an older state of the same topic."""
    with attack(
        "Nothing is doubled", "log table: broker restored from an older copy: the topic ends before the progress"
    ):
        log_stream.send_and_merge(*at_hours(0, 1, 2))
        future_commit = log_stream.ledger.next_commit("recovery", "test").model_copy(update={"progress": {0: 9, 1: 0}})
        log_stream.context.merged.commit_nothing(future_commit)
        log_stream.accept_gap()
        for number in range(3, 11):
            log_stream.send(*at_hours(number))
            log_stream.merge(max_records=2)
        assert [row[:2] for row in list_rows(log_stream)] == [(0, number) for number in range(11)]
        assert operations(log_stream)[0] == "WRITE"
        is_right(log_stream)


@pytest.mark.invariant("1.15")
def test_a_copy_of_a_log_table_without_its_history_continues_after_recover_progress(log_stream, attack):
    with attack("Nothing is doubled", "log table: a copy of it without its history"):
        log_stream.send_and_merge(*at_hours(0, 1))
        table_copy = replace(log_stream.table, name=f"{log_stream.table.name}_copy")
        uri = log_stream.settings.table_uri(table_copy.name)
        log_stream.sql(f"CREATE TABLE delta.`{uri}` USING DELTA PARTITIONED BY (observed_day) AS SELECT * FROM {{t}}")
        log_stream.table = table_copy
        with pytest.raises(LedgerError, match=f"lakehouse repair progress {table_copy.name}"):
            log_stream.merge()
        record_progress(log_stream.context, propose_progress(log_stream.context))
        log_stream.send_and_merge(*at_hours(2))
        assert [row[1] for row in list_rows(log_stream)] == [0, 1, 2]


def test_rows_of_another_program_without_a_record_count_as_rows(log_stream, attack):
    with attack("Nothing is silent", "log table: rows of another program, without a record"):
        log_stream.send_and_merge(*at_hours(0))
        is_right(log_stream)
        log_stream.sql(
            "INSERT INTO {t} (latitude, longitude, observed_at, observed_day)"
            " VALUES (1, 1, TIMESTAMP'2023-01-01', DATE'2023-01-01'), (1, 1, TIMESTAMP'2023-02-01', DATE'2023-02-01')"
        )
        (rollup,) = log_stream.table.rollups
        refresh_rollup(log_stream.context, rollup)
        assert log_stream.sql("SELECT readings FROM {rollup} ORDER BY observed_day") == [(2,), (1,)]
        assert not verify_keys(log_stream.context).passed, "rows without a record are not verified"
        source = log_stream.ledger.progress.source
        clean_log(log_stream.uri)
        assert propose_progress(log_stream.context).commit.reached == {source.text: {0: 1}}
