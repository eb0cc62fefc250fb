"""The counts of a merge are exact, also if Spark skips files or generated code."""

import pytest

from lakehouse.ingest import counts as batch_counts
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, counts, hour, record

pytestmark = pytest.mark.invariant("7.2")


@pytest.fixture
def stream(spark, broker):
    with by_spark():
        yield Stream.create(spark, broker)


def test_a_batch_without_a_matching_row_in_the_files_it_reads_is_counted(stream):
    """The file has hours on both sides, so its statistics do not exclude it."""
    stream.send_and_merge(record(time=hour(0)), record(time=hour(2)))
    (outcome,) = stream.send_and_merge(record(time=hour(1)), b"{")
    assert counts(outcome.entry) == dict(read=2, rejected=1, superseded=0, inserted=1, updated=0, stale=0)


@pytest.mark.parametrize("few_rows", [batch_counts._TO_EVERYBODY, -1])
def test_every_row_is_counted_if_spark_joins_without_generated_code(stream, spark, monkeypatch, few_rows):
    """Spark does so for tables of more than a hundred columns; the file here has no row of that key."""
    monkeypatch.setattr(batch_counts, "_TO_EVERYBODY", few_rows)
    stream.send_and_merge(*(record(time=hour(number)) for number in (0, 1, 3)))
    stream.send(record(time=hour(2), temperature_2m=None), b"{", b"{")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        (outcome,) = stream.merge()
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    assert counts(outcome.entry)["inserted"] == 1
    stream.assert_accounted()
