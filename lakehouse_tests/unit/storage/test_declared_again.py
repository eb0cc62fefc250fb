"""A column that is left out and declared again: what stands in it is of the field that it took then."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.snapshot import differences, facts_of
from lakehouse.errors import TableError
from lakehouse.operations.evolution import _changes
from lakehouse.storage.layout import DECLARED, Layout, TableColumn
from lakehouse.storage.schema_change.diff import Lack, lacking

ID = Column("id", "INT", "Which.", required=True)
PLACE = Column("place", "STRING", "Where.", source="city")
OTHER = replace(PLACE, source="district")


class Table:
    """A table of two columns, whose declaration changes from run to run."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout("t", str(folder / "t"), "d", [], change_data=True)
        schema = pa.schema([("id", pa.int32()), ("place", pa.string())])
        DeltaTable.create(self.layout.uri, schema)
        self.set(**self.declared(ID, PLACE).properties)

    @property
    def opened(self) -> DeltaTable:
        return DeltaTable(self.layout.uri)

    def declared(self, *columns: Column) -> Layout:
        table = StreamTable("t", "t", "T.", columns, ["id"])
        stored = [TableColumn.declared(column) for column in columns]
        return replace(self.layout, columns=stored, declares=facts_of(table))

    def lack(self, *columns: Column) -> Lack:
        return lacking(self.declared(*columns), self.opened)

    def run(self, *columns: Column) -> list[str]:
        """What a run does that meets this declaration, and what is told of it before."""
        layout, lack = self.declared(*columns), self.lack(*columns)
        if lack.properties:
            self.set(**lack.properties)
        return [fact for _, fact in differences(lack.declared, layout.declares)]

    def set(self, **properties: str) -> None:
        self.opened.alter.set_table_properties(properties, raise_if_not_exists=False)

    def told(self) -> list[str]:
        """What the history tells of its declarations, the newest last."""
        history = [info | {"version": info["version"]} for info in self.opened.history()]
        return [fact for each in _changes(history) for fact in each.changes]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_from_another_field_it_is_refused(table: Table) -> None:
    table.run(ID)
    with pytest.raises(TableError, match="Column place of t still holds values from 'city'") as refused:
        table.lack(ID, OTHER)
    assert "another name" in str(refused.value)
    elsewhere = replace(OTHER, name="quarter")
    assert [path for path, _ in table.lack(ID, elsewhere).columns] == [("quarter",)]


def test_it_is_refused_too_after_other_changes_of_the_declaration(table: Table) -> None:
    note = Column("note", "STRING", "What was said.")
    table.run(ID)
    table.run(ID, note)
    with pytest.raises(TableError, match="from 'city'"):
        table.lack(ID, note, OTHER)


@pytest.mark.parametrize("now", [PLACE, replace(OTHER, formerly="city"), replace(PLACE, source=["city"], default="-")])
def test_from_the_field_that_it_took_it_is_told_what_its_rows_hold(table: Table, now: Column) -> None:
    table.run(ID)
    told = table.run(ID, now)
    assert told == ["column place is declared again: rows that no record has replaced since then keep their old values"]
    assert table.run(ID, now) == []
    assert table.told()[1:] == told


def test_what_is_computed_otherwise_is_refused(table: Table) -> None:
    computed = Column("place", "STRING", "Where.", sql="upper(town)")
    town = Column("town", "STRING", "Where.", source="city")
    table.run(ID, town, computed)
    table.run(ID, town)
    with pytest.raises(TableError, match="still holds values from 'upper"):
        table.lack(ID, town, replace(computed, sql="lower(town)"))
    assert table.run(ID, town, computed)[0].startswith("column place is declared again")


def test_a_column_of_somebody_else_is_taken_as_it_is(table: Table) -> None:
    table.run(ID)
    table.set(**{DECLARED: "id"})
    assert table.lack(ID, OTHER).columns == []


def test_a_restore_before_it_was_left_out_takes_it_for_declared(table: Table) -> None:
    table.run(ID)
    table.opened.restore(1)
    assert table.run(ID, OTHER) == ["column place: takes was 'city', is 'district'"]


def test_a_column_that_maintenance_added_is_no_former_one(table: Table) -> None:
    """It is there before the first run that meets its declaration."""
    note: Any = Column("note", "STRING", "What was said.")
    layout = replace(table.declared(ID, PLACE, note), declares="")
    assert DECLARED not in lacking(layout, table.opened).properties
