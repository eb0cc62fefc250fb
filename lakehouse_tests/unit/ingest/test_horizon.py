"""Which records a purged delete may have deleted."""

from datetime import UTC, datetime

import pytest

from lakehouse.declaration import Column, Debezium, Deletes, FieldIs, Reject, StreamTable
from lakehouse.ingest.horizon import is_beyond_horizon
from lakehouse.ingest.rejecting_rules import is_rejected_sql
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.ledger.commits import Commit, Entry, Kind, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import SourceId

COLUMNS = [Column("id", "BIGINT", "Number.", required=True), Column("price", "DECIMAL(9,2)", "Price.")]
FOLLOWED = StreamTable("t", "t", "T.", COLUMNS, ["id"], format=Debezium())
DELETED = StreamTable("t", "t", "T.", COLUMNS, ["id"], deletes=Deletes(when=FieldIs("op", ["d"])))
SOURCE, OTHER = SourceId("kafka", "c/t"), SourceId("kafka", "c/u")


def ledger_with(purged: RecordOrder | None, snapshot: int | None) -> Ledger:
    commit = Commit(kind="purge", number=1, attempt="a", table_version=0, purged=purged, snapshot_position=snapshot)
    return Ledger("uri", exists=True, version=1, entries=(Entry(1, datetime.now(UTC), commit, Metrics()),))


@pytest.mark.invariant("14.8")
@pytest.mark.parametrize(
    ("purged", "snapshot", "kind", "has_horizon"),
    [
        (RecordOrder(source=SOURCE.text, sequence=501), 500, "batch", False),
        (RecordOrder(sequence=501), 500, "batch", False),
        (RecordOrder(source=SOURCE.text, sequence=501), 900, "batch", False),
        (RecordOrder(source=SOURCE.text, sequence=501), 400, "batch", True),
        (RecordOrder(source=SOURCE.text, sequence=501), None, "batch", True),
        (RecordOrder(source=OTHER.text, sequence=501), 500, "batch", True),
        (RecordOrder(source=SOURCE.text, sequence=501), 500, "replay", True),
        (RecordOrder(source=SOURCE.text, sequence=501), 500, "redrive", True),
        (None, 500, "batch", False),
    ],
)
def test_new_changes_have_no_horizon_once_a_snapshot_is_newer_than_the_purged_deletes(
    purged: RecordOrder | None, snapshot: int | None, kind: Kind, *, has_horizon: bool
) -> None:
    assert bool(is_beyond_horizon(FOLLOWED, ledger_with(purged, snapshot), SOURCE, kind)) is has_horizon


def test_the_horizon_of_a_table_without_a_change_stream_holds_in_every_batch() -> None:
    ledger = ledger_with(RecordOrder(partition=0, position=7, time=5), None)
    assert is_beyond_horizon(DELETED, ledger, SOURCE, "batch")


def test_a_record_whose_decimal_lost_digits_is_judged_like_any_other() -> None:
    ledger = ledger_with(RecordOrder(partition=0, position=7, time=5), None)
    assert "_rounded" not in is_beyond_horizon(DELETED, ledger, SOURCE, "batch")
    table = StreamTable("t", "t", "T.", COLUMNS, ["id"], rejects=[Reject("free", when="price = 0")])
    assert "_rounded" not in is_rejected_sql(table, "row")
