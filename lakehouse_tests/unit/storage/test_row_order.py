"""Every table stores the position of a record in the same form, which decides which record is newer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Rejection, StreamTable, Version
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.rejected_records import rejected_layout
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.row_order import identity, merged_layout, order_of, same_record
from lakehouse.storage.schema_diff import read_schema_diff
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.tables.log_tables import log_table
from lakehouse_tests.helpers.tables.tables import redeclare

POSITION = "`source`: STRING, `partition`: INT, `position`: BIGINT, `sequence`: BIGINT"
BY_TIME = "_sequence, coalesce(_order_time, _time), _partition, _position, _base"
LOG = log_table(rollups=[], partition_by=None)
KEYED = replace(LOG, key=["latitude", "longitude", "observed_at"])
ARROW_TYPES = {
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


def arrow_field(column: TableColumn) -> pa.Field:
    inner = pa.struct(list(map(arrow_field, column.fields)))
    return pa.field(column.name, inner if column.fields else ARROW_TYPES[column.type])


def types(layout: Layout) -> dict[str, str]:
    return {column.name: column.type for column in layout.columns}


@pytest.mark.invariant("4.1")
def test_a_record_without_a_version_is_what_the_declaration_says() -> None:
    columns = [*KEYED.columns, Column("revision", "BIGINT", "Revision.")]
    oldest, newest, rejected = (
        replace(KEYED, columns=columns, version=Version("revision", nulls=nulls))
        for nulls in ("oldest", "newest", "reject")
    )
    version = "IF(_position IS NULL, NULL, `revision`)"
    is_null = "IF(_position IS NULL, NULL, `revision` IS NULL)"
    assert [order_of(table) for table in (oldest, rejected)] == [f"struct({version}, {BY_TIME})"] * 2
    assert order_of(newest) == f"struct({is_null}, {version}, {BY_TIME})"
    with_required = [*KEYED.columns, Column("revision", "BIGINT", "Revision.", required=True)]
    assert oldest.fingerprint == replace(oldest, version=BY_REVISION).fingerprint
    assert len({table.fingerprint for table in (oldest, newest, rejected)}) == 3
    assert replace(KEYED, columns=with_required, version="revision").version_nulls == "oldest"
    value = b'{"latitude": 1, "longitude": 2, "time": "2024-01-01T00:00"}'
    with pytest.raises(Rejection, match="'revision' is required") as raised:
        rejected.decode(value)
    assert raised.value.reason == "missing_field"
    assert oldest.decode(value)["revision"] is None


@pytest.mark.invariant("5.1", "6.1")
def test_keyed_rows_log_rows_kept_values_and_rejected_records_have_positions_of_one_form(settings: Settings) -> None:
    merged = types(merged_layout(temperatures, settings))
    order = f"STRUCT<{POSITION}, `time`: TIMESTAMP, `order_time`: TIMESTAMP, `base`: BIGINT>"
    assert merged["_record"] == order
    assert merged["_kept"] == f"STRUCT<`temperature_2m`: {order}>"
    assert (
        types(merged_layout(LOG, settings))["_record"]
        == f"STRUCT<{POSITION}, `time`: TIMESTAMP, `order_time`: TIMESTAMP>"
    )
    assert types(rejected_layout(temperatures, settings))["position"] == f"STRUCT<{POSITION}>"


@pytest.mark.invariant("4.7", "8.1")
def test_a_place_in_the_array_is_the_last_field_of_tables_whose_records_have_many_rows(settings: Settings) -> None:
    items, log = (replace(table, base=None, rows_from="items") for table in (temperatures, LOG))
    order = f"STRUCT<{POSITION}, `time`: TIMESTAMP, `order_time`: TIMESTAMP, `base`: BIGINT, `index`: INT>"
    assert types(merged_layout(items, settings))["_record"] == order
    assert types(merged_layout(items, settings))["_kept"] == f"STRUCT<`temperature_2m`: {order}>"
    assert (
        types(merged_layout(log, settings))["_record"]
        == f"STRUCT<{POSITION}, `time`: TIMESTAMP, `order_time`: TIMESTAMP, `index`: INT>"
    )
    assert types(rejected_layout(items, settings))["position"] == f"STRUCT<{POSITION}, `index`: INT>"
    assert order_of(items).endswith("_position, _index, _base)")
    assert identity(log)[-1] == "_record.index AS _index"
    assert same_record(items, "s", "t").endswith("s.time <=> t.time AND s.index <=> t.index")


@pytest.mark.invariant("4.1", "4.3")
@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, BY_TIME),
        ({"version": BY_REVISION}, f"IF(_position IS NULL, NULL, `revision`), {BY_TIME}"),
        ({"order": "offset"}, "_position, _base"),
    ],
)
def test_the_order_of_a_source_comes_after_the_version_and_before_the_time(changes: dict[str, Any], order: str) -> None:
    columns = [*KEYED.columns, Column("revision", "INT", doc="Version.")]
    assert order_of(redeclare(KEYED, columns=columns, **changes)) == f"struct({order})"


@pytest.mark.parametrize(("first", "second", "verb"), [(LOG, KEYED, "have no"), (KEYED, LOG, "have")])
def test_rows_with_a_key_are_not_those_of_a_log_table(
    settings: Settings, first: StreamTable, second: StreamTable, verb: str
) -> None:
    layout = merged_layout(first, settings)
    DeltaTable.create(layout.uri, pa.schema(list(map(arrow_field, layout.columns))))
    assert read_schema_diff(layout)
    with pytest.raises(TableError, match=rf"{verb} _record\.base: .*a table with another name"):
        read_schema_diff(merged_layout(second, settings))


def test_a_key_column_whose_name_is_a_sql_value_is_quoted() -> None:
    columns = [*KEYED.columns, Column("true", "INT", "d", required=True)]
    assert identity(replace(KEYED, columns=columns, key=["true"])) == ("`true`",)
