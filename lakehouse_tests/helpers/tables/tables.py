"""The tables as another reader sees them, in the words of the model; without Spark."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from lakehouse.declaration import StreamTable
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.settings import Settings
from lakehouse_tests.helpers.histories.model import Key, Order, Position, Row
from lakehouse_tests.helpers.tables.rows import Origin, origin, position, rows_of

_MEASURES = ("rows", "readings", "temperature_min", "temperature_max", "temperature_sum", "temperature_avg")


def footprint(uri: str) -> tuple[int, set[str]]:
    """How many versions of a table may have rows of their own, 0 where there is none yet, and data files on disk.

    Told are the files that its newest version does not have: those of earlier ones, and what a writer left that died. A
    version that only says what is declared now has no rows of its own.
    """
    if not DeltaTable.is_deltatable(uri):
        return 0, set()
    table = DeltaTable(uri)
    there = {str(path) for path in Path(uri).rglob("*.parquet") if "_delta_log" not in path.parts}
    declared = sum(info.get("operation") == "SET TBLPROPERTIES" for info in table.history())
    return table.version() - declared, there - {str(Path(file)) for file in table.file_uris()}


class Tables:
    """The merged table and what is derived from it."""

    def __init__(self, settings: Settings, table: StreamTable) -> None:
        self._settings = settings
        self._table = table
        self.uri = settings.table_uri(table.name)

    @property
    def exists(self) -> bool:
        return DeltaTable.is_deltatable(self.uri)

    @property
    def version(self) -> int:
        return DeltaTable(self.uri).version()

    def ledger(self) -> Ledger:
        return read_ledger(self.uri, self._table.name, whole=True)

    def positions(self) -> set[Position]:
        """Positions of all records that were ever rejected."""
        return {position(row) for row in rows_of(self._settings, self._table.rejected_name)}

    def merged(self) -> dict[Key, Row]:
        rows = rows_of(self._settings, self._table.name)
        found = {_key(row): _as_stored(row) for row in rows}
        assert len(found) == len(rows), "a key stands twice"
        assert all(row["observed_month"] == row["observed_at"].date().replace(day=1) for row in rows)
        return found

    def rejected(self, ledger: Ledger) -> dict[Position, str]:
        """Positions below the progress that no commit that still stands has resolved."""
        progress = ledger.progress.positions if ledger.progress else {}
        found: dict[Position, str] = {}
        for row in rows_of(self._settings, self._table.rejected_name):
            (partition, offset), resolved = position(row), row["resolved_number"]
            assert (partition, offset) not in found, "a position stands twice"
            is_open = resolved is None or resolved in ledger.undone
            if is_open and offset < progress.get(partition, 0):
                found[partition, offset] = row["reason"]
        return found

    def changes(self) -> set[tuple[Any, ...]]:
        rows = rows_of(self._settings, self._table.changes_name)
        assert not any(row["reconciled"] for row in rows)
        told = ("source_version", "change", "temperature_2m_before", "temperature_2m_after")
        found = {(*_key(row), *(row[name] for name in told)) for row in rows}
        assert len(found) == len(rows), "a change stands twice"
        return found

    def rollup(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        rows = rows_of(self._settings, self._table.rollups[0].name)
        for row in rows:
            if row["temperature_avg"] is not None:
                row["temperature_avg"] = round(row["temperature_avg"], 9)
        named = (*_MEASURES, "first_observed_at", "last_observed_at")
        return {
            (row["latitude"], row["longitude"], row["observed_month"]): tuple(row[name] for name in named)
            for row in rows
        }


def _key(row: dict[str, Any]) -> Key:
    return row["latitude"], row["longitude"], row["observed_at"]


def _as_stored(row: dict[str, Any]) -> Row:
    """A row; a temperature without an order beside it has that of its row."""
    order, temperature = _order(origin(row)) or (), row["temperature_2m"]
    came_with = _order(origin(row, "temperature_2m")) or (order if temperature is not None else None)
    return Row(temperature, order, came_with)


def _order(found: Origin) -> Order | None:
    if found.position is not None:
        return 1, found.time, found.partition, found.position
    return None if found.base is None else (0, found.base)
