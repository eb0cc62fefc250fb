"""Some columns of a record are read alone, with no other rule of the declaration."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column, Debezium, Files, Json, StreamTable, Topic, Upkeep
from lakehouse.decoding.one_record import judge_record
from lakehouse.ingest.erasures import table_of_columns

COLUMNS = [Column("id", "BIGINT", required=True, doc=""), Column("amount", "BIGINT", between=(0, 5), doc="")]
TABLE = StreamTable("orders", "orders", doc="", columns=COLUMNS, key=["id"])


@pytest.mark.parametrize(
    "options",
    [
        {"upkeep": Upkeep(cluster_by=["amount"])},
        {"topic": "", "source": Topic("orders", order="offset")},
        {"topic": "", "source": Files("orders", order="offset")},
        {"format": Json(duplicate_names="last")},
    ],
)
def test_the_key_of_a_record_is_read_although_another_column_is_wrong(options: dict[str, Any]) -> None:
    part = table_of_columns(replace(TABLE, **options), ["id"])
    assert part is not None
    (verdict,) = judge_record(b'{"id": 7, "amount": 900}', part.rules(), {})
    assert (verdict.reason, verdict.row) == (None, {"id": 7})


def test_the_key_of_a_change_is_read_alone() -> None:
    part = table_of_columns(replace(TABLE, format=Debezium()), ["id"])
    assert part is not None
    source = b'{"connector": "postgresql", "lsn": 1}'
    change = b'{"before": null, "after": {"id": 7, "amount": "x"}, "op": "c", "source": ' + source + b"}"
    (verdict,) = judge_record(change, part.rules(), {})
    assert (verdict.reason, verdict.row) == (None, {"id": 7})


def test_columns_that_records_do_not_have_cannot_be_read() -> None:
    assert table_of_columns(TABLE, ["id", "other"]) is None
