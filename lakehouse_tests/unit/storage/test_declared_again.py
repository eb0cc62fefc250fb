"""A column that is removed and declared again: its stored values are those of the field that it read before."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Computed, StreamTable
from lakehouse.declaration.snapshot import differences, facts_of
from lakehouse.errors import TableError
from lakehouse.operations.status import _changes
from lakehouse.storage.layout import COLUMNS_PROPERTY, Layout, TableColumn
from lakehouse.storage.schema_diff import SchemaDiff, compare_schema

ID = Column("id", "INT", "Which.", required=True)
PLACE = Column("place", "STRING", "Where.", source="city")
OTHER_PLACE = replace(PLACE, source="district")


class Table:
    """A table with two columns, whose declaration changes from run to run."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout("t", str(folder / "t"), "d", [], change_data=True)
        schema = pa.schema([("id", pa.int32()), ("place", pa.string())])
        DeltaTable.create(self.layout.uri, schema)
        self.set_properties(**self.declare(ID, PLACE).properties)

    @property
    def delta_table(self) -> DeltaTable:
        return DeltaTable(self.layout.uri)

    def declare(self, *columns: Column | Computed) -> Layout:
        table = StreamTable("t", "t", "T.", columns, ["id"])
        table_columns = [TableColumn.from_declaration(column) for column in columns]
        return replace(self.layout, columns=table_columns, declaration_facts=facts_of(table))

    def compare(self, *columns: Column | Computed) -> SchemaDiff:
        return compare_schema(self.declare(*columns), self.delta_table)

    def run(self, *columns: Column | Computed) -> list[str]:
        """Apply this declaration as a run does, and return the differences that are reported before."""
        layout, diff = self.declare(*columns), self.compare(*columns)
        if diff.properties:
            self.set_properties(**diff.properties)
        return [difference for _, difference in differences(diff.former_declaration, layout.declaration_facts)]

    def set_properties(self, **properties: str) -> None:
        self.delta_table.alter.set_table_properties(properties, raise_if_not_exists=False)

    def recorded_changes(self) -> list[str]:
        """Return the changes of the declaration that the history records, newest last."""
        history = [info | {"version": info["version"]} for info in self.delta_table.history()]
        return [change for entry in _changes(history) for change in entry.changes]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_column_with_another_field_is_refused(table: Table) -> None:
    table.run(ID)
    with pytest.raises(TableError, match="Column place of t still holds values from 'city'") as error:
        table.compare(ID, OTHER_PLACE)
    assert "another name" in str(error.value)
    renamed_column = replace(OTHER_PLACE, name="quarter")
    assert [path for path, _ in table.compare(ID, renamed_column).missing_columns] == [("quarter",)]


def test_a_column_with_another_field_is_refused_after_other_changes_of_the_declaration(table: Table) -> None:
    note = Column("note", "STRING", "A note.")
    table.run(ID)
    table.run(ID, note)
    with pytest.raises(TableError, match="from 'city'"):
        table.compare(ID, note, OTHER_PLACE)


@pytest.mark.parametrize(
    "column", [PLACE, replace(OTHER_PLACE, formerly="city"), replace(PLACE, source=["city"], default="-")]
)
def test_a_column_with_its_former_field_is_reported_with_the_age_of_its_values(table: Table, column: Column) -> None:
    table.run(ID)
    changes = table.run(ID, column)
    assert changes == [
        "column place is declared again: rows that no record has replaced since then keep their old values"
    ]
    assert table.run(ID, column) == []
    assert table.recorded_changes()[1:] == changes


def test_a_column_with_another_sql_is_refused(table: Table) -> None:
    computed_column = Computed("place", "STRING", sql="upper(town)", doc="Where.")
    town = Column("town", "STRING", "Where.", source="city")
    table.run(ID, town, computed_column)
    table.run(ID, town)
    with pytest.raises(TableError, match="still holds values from 'upper"):
        table.compare(ID, town, replace(computed_column, sql="lower(town)"))
    assert table.run(ID, town, computed_column)[0].startswith("column place is declared again")


def test_a_column_of_another_program_is_accepted(table: Table) -> None:
    table.run(ID)
    table.set_properties(**{COLUMNS_PROPERTY: "id"})
    assert table.compare(ID, OTHER_PLACE).missing_columns == []


def test_after_a_restore_to_before_its_removal_the_column_counts_as_declared(table: Table) -> None:
    table.run(ID)
    table.delta_table.restore(1)
    assert table.run(ID, OTHER_PLACE) == ["column place: takes was 'city', is 'district'"]


def test_a_column_that_maintenance_added_is_not_a_former_one(table: Table) -> None:
    """It exists before the first run with its declaration."""
    note: Any = Column("note", "STRING", "A note.")
    layout = replace(table.declare(ID, PLACE, note), declaration_facts="")
    assert COLUMNS_PROPERTY not in compare_schema(layout, table.delta_table).properties
