"""A RESTORE moves the progress back; a changed type is refused."""

from dataclasses import replace

import pytest

from lakehouse_tests.helpers.brokers.streams import Stream, hour, record


@pytest.fixture
def stream(spark, broker):
    stream = Stream.create(spark, broker)
    stream.send(record(time=hour(0)))
    stream.merge()
    return stream


@pytest.mark.invariant("1.6")
def test_a_restore_to_the_creation_starts_at_the_first_record(stream):
    stream.sql("RESTORE TABLE {t} TO VERSION AS OF 0")
    assert stream.ledger.progress is None
    stream.merge()
    assert set(stream.temperatures()) == {hour(0)}


def test_a_changed_type_is_refused_with_both_types(stream):
    from lakehouse.errors import TableError

    columns = [*stream.table.columns[:3], replace(stream.table.columns[3], type="BIGINT")]
    stream.table = replace(stream.table, columns=columns)
    with pytest.raises(TableError, match="temperature_2m of .* is double in the table and bigint"):
        stream.merge()
