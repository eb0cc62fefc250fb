"""Records are deleted and topics are replaced or extended: what exists is merged, and no loss is silent."""

import re
from functools import partial

import pytest

from lakehouse.errors import DataLossError
from lakehouse.kafka import add_partitions, delete_topic
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.attacks.deleting_streams import DeletingStream
from lakehouse_tests.helpers.attacks.first_records import assert_holds, hours, lines, merge_first_records
from lakehouse_tests.helpers.brokers.clients import delete_before
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.tables.tables import redeclare


def recreate_topic(stream: DeletingStream, first: int, count: int) -> None:
    """Delete the topic, create it again and fill its first partition."""
    delete_topic(stream.settings, stream.table.topic)
    stream.make_topic()
    stream.send(*lines(first, count))


def assert_stops(stream: Stream, *patterns: str) -> None:
    """The run merges nothing; its error names the topic, the command and matches these patterns."""
    state_before = commit_state(stream)
    with pytest.raises(DataLossError) as error_info:
        stream.merge()
    for text in (f"topic {stream.table.topic}", *patterns, f"lakehouse repair gap {stream.table.name}"):
        assert re.search(text, str(error_info.value))
    version = stream.ledger.version
    for action in (stream.merge, stream.replay):
        with pytest.raises(DataLossError):
            action()
    assert (commit_state(stream), stream.ledger.version) == (state_before, version)


def commit_state(stream: Stream) -> tuple[int, int]:
    """The transaction number and the newest version that may have changed a row; declarations change neither."""
    return stream.ledger.transaction, stream.ledger.rows_version


def accept_and_merge(stream: DeletingStream, *, by_declaration: bool) -> list[Range]:
    """Accept the gap and merge everything; return the missing offsets of the partitions that the test fills."""
    if by_declaration:
        stream.table = redeclare(stream.table, gaps="accept")
    else:
        stream.accept_gap()
    stream.merge()
    gap = next(entry for entry in stream.ledger.entries if entry.commit.kind == "gap")
    assert stream.merge() == []
    return [missing for missing in gap.commit.gap if missing.partition not in stream.own_partitions]


@pytest.mark.invariant("9.1", "9.4", "9.6")
@pytest.mark.parametrize("by_declaration", [False, True])
def test_records_deleted_before_their_merge_are_named_and_skipped(spark, broker, attack, by_declaration):
    stream = merge_first_records(DeletingStream.create(spark, broker))
    with attack("Nothing is silent", "records deleted before they were merged"):
        delete_before(broker, stream.table.topic, {0: 3, 1: 3, 2: 1})
        assert_stops(stream, "Partition 1: records from 2 to 2 were deleted", "Partition 2: records from 0 to 0")
        assert accept_and_merge(stream, by_declaration=by_declaration) == [Range(1, 2, 3), Range(2, 0, 1)]
        assert_holds(stream, hours(*range(12)) - hours(6, 8))


@pytest.mark.invariant("9.1", "9.6")
@pytest.mark.parametrize("count", [2, 4, 9])
def test_a_recreated_topic_stops_the_run_until_the_gap_is_accepted(spark, broker, attack, count):
    stream = merge_first_records(DeletingStream.create(spark, broker))
    with attack("Nothing is silent", "topic deleted and created again, with fewer or more records than before"):
        recreate_topic(stream, 20, count)
        assert_stops(stream, "deleted and created again", "partition 0 from offset 4, partition 1 from offset 2")
        assert accept_and_merge(stream, by_declaration=False) == [Range(0, 4, 4), Range(1, 2, 2), Range(2, 0, 0)]
        assert_holds(stream, hours(*range(6), *range(20, 20 + count)))


@pytest.mark.invariant("9.5")
@pytest.mark.parametrize("by_declaration", [True, False])
def test_records_deleted_between_plan_and_read_are_planned_again(spark, broker, attack, interference, by_declaration):
    stream = merge_first_records(DeletingStream.create(spark, broker))
    with attack("Nothing is silent", "records deleted between plan and read"):
        interference.before_reading(partial(delete_before, broker, stream.table.topic, {1: 3}))
        if by_declaration:
            stream.table = redeclare(stream.table, gaps="accept")
            kinds = [outcome.entry.commit.kind for outcome in stream.merge()]
            assert kinds == ["gap", "batch"]
        else:
            assert_stops(stream, "Partition 1: records from 2 to 2 were deleted")
            assert accept_and_merge(stream, by_declaration=False) == [Range(1, 2, 3)]
        assert_holds(stream, hours(*range(12)) - hours(6))
    with attack("Nothing is silent", "records deleted between plan and read of a replay"):
        interference.before_reading(partial(delete_before, broker, stream.table.topic, {0: 1}))
        message = f"partition 0 offsets 0 to 3.*lakehouse replay {stream.table.name}"
        with pytest.raises(DataLossError, match=message):
            stream.replay()


@pytest.mark.invariant("9.4", "9.5")
def test_a_topic_recreated_between_plan_and_read_is_never_read_as_the_old_one(stream, attack, interference):
    with attack("Nothing is silent", "topic created again, with more records, between plan and read"):

        def recreate_larger() -> None:
            recreate_topic(stream, 20, 9)
            for partition in (1, 2):
                stream.send(*lines(20 + 10 * partition, 9), partition=partition)

        interference.before_reading(recreate_larger)
        stream.table = redeclare(stream.table, gaps="accept")
        assert_stops(stream, "deleted and created again")
        accept_and_merge(stream, by_declaration=False)
        assert_holds(stream, hours(*range(6), *range(20, 29), *range(30, 39), *range(40, 49)))


@pytest.mark.invariant("2.2", "2.4")
def test_partitions_added_between_plan_and_read_are_read_by_the_next_batch(stream, attack, interference):
    with attack("Nothing is lost", "partitions added between plan and read"):

        def add_two_partitions() -> None:
            add_partitions(stream.settings, stream.table.topic, 7)
            stream.send(*lines(20, 2), partition=6)

        interference.before_reading(add_two_partitions)
        first_outcome, later_outcome = stream.merge()
        assert [offset_range.partition for offset_range in first_outcome.plan.ranges] == [0, 1, 2, 3, 4]
        assert (first_outcome.entry.commit.read, later_outcome.entry.commit.read) == (6, 2)
        stream.merge()  # of the old partitions, a run merges what they had at its start
        assert_holds(stream, hours(*range(12), 20, 21))


@pytest.mark.invariant("9.1", "9.6")
def test_another_cluster_at_the_same_address_stops_the_run(spark, fragile_broker, attack):
    stream = merge_first_records(DeletingStream.create(spark, fragile_broker.settings))
    with attack("Nothing is silent", "another cluster under the same address"):
        fragile_broker.start_with(None)
        stream.make_topic()
        stream.send(*lines(20, 9))
        assert_stops(stream, "The broker belongs to cluster", "partition 0 from offset 4, partition 1 from offset 2")
        assert accept_and_merge(stream, by_declaration=False) == [Range(0, 4, 4), Range(1, 2, 2), Range(2, 0, 0)]
        assert_holds(stream, hours(*range(6), *range(20, 29)))


@pytest.mark.invariant("8.1", "9.1", "9.4")
def test_a_broker_restored_from_an_older_copy_stops_the_run(spark, fragile_broker, attack, tmp_path):
    stream = merge_first_records(DeletingStream.create(spark, fragile_broker.settings))
    stream.is_counted = False
    with attack("Nothing is silent", "broker restored from an older copy: the topic ends behind the progress"):
        fragile_broker.copy_data(tmp_path / "copy")
        add_partitions(stream.settings, stream.table.topic, 6)
        stream.send(b"{", *lines(21, 2))
        stream.send_and_merge(*lines(30, 1), partition=5)
        fragile_broker.start_with(tmp_path / "copy")
        stream.send(b"", *lines(40, 1))
        stream.table = redeclare(stream.table, gaps="accept")
        assert_stops(stream, "Partition 0 ends at 6, but the table has merged up to 7", "Partition 5 no longer exists")
        assert accept_and_merge(stream, by_declaration=False) == [Range(0, 6, 7), Range(5, 1, 1)]
        assert_holds(stream, hours(*range(12), 21, 22, 30, 40))
        assert sorted(stream.rejected()) == [(0, 4, "empty_value"), (0, 4, "truncated")], "both had the same offset"


@pytest.mark.invariant("9.1", "9.6")
def test_a_restored_broker_whose_topic_has_grown_beyond_the_progress_again_stops_the_run(
    spark, fragile_broker, attack, tmp_path
):
    stream = merge_first_records(DeletingStream.create(spark, fragile_broker.settings))
    stream.is_counted = False
    with attack("Nothing is silent", "broker restored from an older copy: the topic has grown beyond the progress"):
        stream.merge()
        fragile_broker.copy_data(tmp_path / "copy")
        stream.send_and_merge(*lines(20, 18))
        fragile_broker.start_with(tmp_path / "copy")
        stream.send(*lines(40, 40))
        stream.table = redeclare(stream.table, gaps="accept")
        assert_stops(stream, "Partition 0 has lost records at its end, up to offset 21")
        assert accept_and_merge(stream, by_declaration=False) == [Range(0, 4, 22)]
        assert_holds(stream, hours(*range(12), *range(20, 38), *range(40, 80)))
