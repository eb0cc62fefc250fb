"""Columns that are given wider types, when something goes wrong in between."""

import pytest

from lakehouse.derived.refresh import caught_up
from lakehouse.operations.verify import verify_rollup
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.tables.sales import narrow_sales, sale, widened

pytestmark = pytest.mark.invariant(1, 7, 10)


@pytest.fixture(params=[False, True], ids=["few rows", "by Spark"])
def stream(spark, broker, request: pytest.FixtureRequest):
    with by_spark(request.param):
        yield narrow_sales(spark, broker)


def test_a_run_that_dies_between_the_tables_goes_on(stream: Stream) -> None:
    stream.table = widened(stream.table)
    stream.refresh()  # the derived tables are wide now, and the merged one is not
    stream.send(sale(4, 2**40, 0.5))
    caught_up(stream.context, stream.merge)
    stream.refresh()
    assert stream.sql("SELECT count(*), max(pieces) FROM {t}") == [(4, 2**40)]
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert stream.sql("SELECT count(*), count_if(reconciled) FROM {changes}") == [(5, 0)]


def test_a_restore_to_before_the_wider_type_is_widened_again(stream: Stream) -> None:
    stream.refresh()
    before, narrow = stream.ledger.version, stream.snapshot_of("id")
    stream.table = widened(stream.table)
    stream.send(sale(4, 2**40, 0.5))
    caught_up(stream.context, stream.merge)
    stream.refresh()
    wide = stream.snapshot_of("id")
    stream.spark.sql(f"RESTORE delta.`{stream.uri}` TO VERSION AS OF {before}").collect()
    assert stream.snapshot_of("id") == narrow
    caught_up(stream.context, stream.merge)
    stream.refresh()
    assert stream.snapshot_of("id") == wide
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    newest = stream.sql("SELECT max_by(pieces_after, number) FROM {changes} WHERE id = 4")
    assert newest == [(2**40,)]
    stream.assert_accounted()
