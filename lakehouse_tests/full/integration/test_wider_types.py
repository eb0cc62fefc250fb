"""Columns with wider types, when a run ends early or a table is restored."""

import pytest

from lakehouse.derived.refresh import refresh_and_retry
from lakehouse.operations.verify import verify_rollup
from lakehouse_tests.helpers.attacks.writers import WRITERS, by_writer
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.tables.sales import narrow_sales, sale, with_wide_columns


@pytest.fixture(params=WRITERS)
def stream(spark, broker, request: pytest.FixtureRequest):
    with by_writer(request.param):
        yield narrow_sales(spark, broker)


def test_a_run_continues_after_it_ended_between_the_tables(stream: Stream) -> None:
    stream.table = with_wide_columns(stream.table)
    stream.refresh()  # only the derived tables have the wider type now
    stream.send(sale(4, 2**40, 0.5))
    refresh_and_retry(stream.context, stream.merge)
    stream.refresh()
    assert stream.sql("SELECT count(*), max(pieces) FROM {t}") == [(4, 2**40)]
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert stream.sql("SELECT count(*), count_if(reconciled) FROM {changes}") == [(5, 0)]


@pytest.mark.invariant("1.6")
def test_a_restore_to_before_the_wider_type_is_widened_again(stream: Stream) -> None:
    stream.refresh()
    version_before, narrow_rows = stream.ledger.version, stream.snapshot_of("id")
    stream.table = with_wide_columns(stream.table)
    stream.send(sale(4, 2**40, 0.5))
    refresh_and_retry(stream.context, stream.merge)
    stream.refresh()
    wide_rows = stream.snapshot_of("id")
    stream.spark.sql(f"RESTORE delta.`{stream.uri}` TO VERSION AS OF {version_before}").collect()
    assert stream.snapshot_of("id") == narrow_rows
    refresh_and_retry(stream.context, stream.merge)
    stream.refresh()
    assert stream.snapshot_of("id") == wide_rows
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    newest_pieces = stream.sql("SELECT max_by(pieces_after, number) FROM {changes} WHERE id = 4")
    assert newest_pieces == [(2**40,)]
    stream.assert_accounted()
