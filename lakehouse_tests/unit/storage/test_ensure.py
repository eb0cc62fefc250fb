"""A table that fits its declaration is not changed, and Spark is not needed."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.declaration.names import RECORD
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.errors import TableError
from lakehouse.ledger.ledger import read_ledger
from lakehouse.storage.layout import ROWS, VERSION_COLUMN, Layout, TableColumn
from lakehouse.storage.row_order import INDEX, ORDER
from lakehouse.storage.schema_change import ensure_table

NO_SPARK: Any = None
LOG_FIELDS = [column for column in ORDER if column.name != "base"]
INNER = (TableColumn("at", "TIMESTAMP", "d"), TableColumn("n", "INT", "d"))


def create(folder: Path, *columns: TableColumn) -> Layout:
    layout = Layout("t", str(folder / "t"), "d", columns)
    inner = pa.struct([("at", pa.timestamp("us", "UTC")), ("n", pa.int32())])
    schema = pa.schema([("k", pa.decimal128(9, 6)), ("_r", inner)])
    DeltaTable.create(layout.uri, schema, configuration=layout.enforced_properties)
    return layout


def create_with_records(
    folder: Path, stored_columns: Sequence[TableColumn], declared_columns: Sequence[TableColumn]
) -> Layout:
    """Create a table with some record fields, and return a layout that declares others."""
    layout = Layout("t", str(folder / "t"), "d", [TableColumn.struct(RECORD, "d", declared_columns)], anchors=[RECORD])
    record = pa.struct([(column.name, arrow_type(column.type)) for column in stored_columns])
    DeltaTable.create(layout.uri, pa.schema([(RECORD, record)]), configuration=layout.enforced_properties)
    return layout


def test_a_table_that_fits_its_layout_gets_no_commit(tmp_path: Path) -> None:
    layout = create(tmp_path, TableColumn("k", "DECIMAL(9,6)", "d"), TableColumn.struct("_r", "d", INNER))
    assert ensure_table(NO_SPARK, layout) == read_ledger(layout.uri, "t")
    assert DeltaTable(layout.uri).version() == 0


@pytest.mark.parametrize(("type_", "in_struct"), [("DECIMAL(9,2)", "INT"), ("DECIMAL(9,6)", "BIGINT")])
def test_a_column_of_another_type_is_named(tmp_path: Path, type_: str, in_struct: str) -> None:
    inner = [INNER[0], TableColumn("n", in_struct, "d")]
    layout = create(tmp_path, TableColumn("k", type_, "d"), TableColumn.struct("_r", "d", inner))
    with pytest.raises(TableError, match="Column (k|_r.n) of t is (decimal|int)"):
        ensure_table(NO_SPARK, layout)


def test_another_version_column_of_kept_values_is_refused(tmp_path: Path) -> None:
    layout = create(tmp_path, TableColumn("k", "DECIMAL(9,6)", "d"), TableColumn.struct("_r", "d", INNER))
    table = DeltaTable(layout.uri)
    table.alter.set_table_properties({VERSION_COLUMN: "a"}, raise_if_not_exists=False)
    for version_column in ("a", ""):
        assert ensure_table(NO_SPARK, replace(layout, kept_version_column=version_column)) is not None
    rows = pa.Table.from_pylist([{"k": Decimal(1)}], schema=pa.schema(table.schema()))
    write_deltalake(table, rows, mode="append")
    with pytest.raises(TableError, match="have versions from column a, and the declaration names b"):
        ensure_table(NO_SPARK, replace(layout, kept_version_column="b"))


@pytest.mark.parametrize(("stored_columns", "declared_columns"), [(ORDER, LOG_FIELDS), (LOG_FIELDS, ORDER)])
def test_rows_with_a_key_and_rows_without_one_are_distinguished(
    tmp_path: Path, stored_columns: list[TableColumn], declared_columns: list[TableColumn]
) -> None:
    layout = create_with_records(tmp_path, stored_columns, declared_columns)
    with pytest.raises(TableError, match="written with a key and the declaration has none"):
        ensure_table(NO_SPARK, layout)


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("record_fields", [ORDER, LOG_FIELDS], ids=["with a key", "without a key"])
def test_rows_of_elements_and_rows_of_records_are_distinguished(
    tmp_path: Path, has_index: bool, record_fields: list[TableColumn]
) -> None:
    columns = [*ORDER, INDEX] if has_index else record_fields
    layout = create_with_records(tmp_path, columns, record_fields if has_index else [*ORDER, INDEX])
    with pytest.raises(TableError, match="written with rows_from and the declaration has none"):
        ensure_table(NO_SPARK, layout)


def test_rows_of_another_array_are_refused(tmp_path: Path) -> None:
    layout = create(tmp_path, TableColumn("k", "DECIMAL(9,6)", "d"))
    table = DeltaTable(layout.uri)
    table.alter.set_table_properties({ROWS: '["items"]'}, raise_if_not_exists=False)
    assert ensure_table(NO_SPARK, replace(layout, rows_path=("items",))) is not None
    with pytest.raises(TableError, match="are the elements of 'items' in the table and of the record in its declar"):
        ensure_table(NO_SPARK, replace(layout, rows_path=("",)))


def test_a_table_of_a_former_release_without_a_commit_of_ours_must_be_loaded_again(tmp_path: Path) -> None:
    former_fields = [TableColumn("incarnation", "STRING", "d"), TableColumn("offset", "BIGINT", "d")]
    with pytest.raises(TableError, match="before 0.1.0 .* load the table again"):
        ensure_table(NO_SPARK, create_with_records(tmp_path, former_fields, ORDER))


def test_a_field_that_another_program_added_to_the_record_column_is_accepted(tmp_path: Path) -> None:
    layout = create_with_records(tmp_path, [*ORDER, TableColumn("theirs", "INT", "d")], ORDER)
    assert ensure_table(NO_SPARK, layout) is not None
