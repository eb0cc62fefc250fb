"""Where a record stands is named in one form by every table, and what makes one newer follows from it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, StreamTable
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.rejected_records import rejected_layout
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.row_order import identity, merged_layout, order_of
from lakehouse.storage.schema_change.diff import lack_of
from lakehouse_tests.helpers.tables.log_tables import log_table

pytestmark = pytest.mark.invariant(4)

POSITION = "`source`: STRING, `partition`: INT, `position`: BIGINT, `sequence`: BIGINT"
BY_TIME = "_sequence, _time, _partition, _position, _base"
LOG = log_table(rollups=[], partition_by=None)
KEYED = replace(LOG, key=["latitude", "longitude", "observed_at"])
STORED = {
    "STRING": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "DECIMAL(9,6)": pa.decimal128(9, 6),
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, _env_file=None)


def stored(column: TableColumn) -> pa.Field:
    inner = pa.struct(list(map(stored, column.fields)))
    return pa.field(column.name, inner if column.fields else STORED[column.type])


def types(layout: Layout) -> dict[str, str]:
    return {column.name: column.type for column in layout.columns}


def test_merged_rows_of_both_kinds_kept_values_and_rejected_records_stand_in_one_form(settings: Settings) -> None:
    merged = types(merged_layout(temperatures, settings))
    order = f"STRUCT<{POSITION}, `time`: TIMESTAMP, `base`: BIGINT>"
    assert merged["_record"] == order
    assert merged["_kept"] == f"STRUCT<`temperature_2m`: {order}>"
    assert types(merged_layout(LOG, settings))["_record"] == f"STRUCT<{POSITION}, `time`: TIMESTAMP>"
    assert types(rejected_layout(temperatures, settings))["position"] == f"STRUCT<{POSITION}>"


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, BY_TIME),
        ({"version": "revision"}, f"IF(_position IS NULL, NULL, `revision`), {BY_TIME}"),
        ({"order": "offset"}, "_position, _base"),
    ],
)
def test_the_order_of_a_source_counts_behind_a_version_and_before_time(changes: dict[str, Any], order: str) -> None:
    columns = [*KEYED.columns, Column("revision", "INT", doc="Version.")]
    assert order_of(replace(KEYED, columns=columns, **changes)) == f"struct({order})"


@pytest.mark.parametrize(("first", "then", "has"), [(LOG, KEYED, "have no"), (KEYED, LOG, "have")])
def test_rows_with_a_key_are_not_those_of_a_log_table(
    settings: Settings, first: StreamTable, then: StreamTable, has: str
) -> None:
    layout = merged_layout(first, settings)
    DeltaTable.create(layout.uri, pa.schema(list(map(stored, layout.columns))))
    assert lack_of(layout)
    with pytest.raises(TableError, match=rf"{has} _record\.base: .*a table of another name"):
        lack_of(merged_layout(then, settings))


def test_a_key_that_reads_as_a_value_tells_rows_by_its_column() -> None:
    columns = [*KEYED.columns, Column("true", "INT", "d", required=True)]
    assert identity(replace(KEYED, columns=columns, key=["true"])) == ("`true`",)
