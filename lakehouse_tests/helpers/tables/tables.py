"""Read the tables without Spark, in the types of the model."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from lakehouse.declaration import Column, StreamTable, Topic
from lakehouse.ledger.commit_infos import names_of_progress, names_of_sources, progress_by_source
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.settings import Settings
from lakehouse_tests.helpers.histories.model_values import Key, Order, Partition, Position, Row
from lakehouse_tests.helpers.tables.rows import origin, place_in_array, position, rows_of, source_of

_MEASURES = ("rows", "readings", "temperature_min", "temperature_max", "temperature_sum", "temperature_avg")


def redeclare(table: StreamTable, topic: str = "", **options: Any) -> StreamTable:
    """The declaration with other options, and another topic; options of ``Topic`` are those of its source."""
    of_source = {field.name for field in fields(Topic)} - {"name"}
    changes = {name: options.pop(name) for name in of_source & options.keys()}
    changes |= {"name": topic} if topic and "source" not in options else {}
    source = options.pop("source", table.source)
    return replace(table, topic="", source=replace(source, **changes), **options)


def column_of(table: StreamTable, name: str) -> Column:
    """The column of this name that is read from records."""
    return next(column for column in table.record_columns if column.name == name)


def footprint(uri: str) -> tuple[int, set[str]]:
    """Return the number of versions with their own rows (0 without a table) and the unused data files on disk.

    Unused files are files that the newest version does not contain: those of earlier versions and those of writers that
    died. A version that only stores the declaration has no rows of its own.
    """
    if not DeltaTable.is_deltatable(uri):
        return 0, set()
    table = DeltaTable(uri)
    files_on_disk = {str(path) for path in Path(uri).rglob("*.parquet") if "_delta_log" not in path.parts}
    declaration_count = sum(info.get("operation") == "SET TBLPROPERTIES" for info in table.history())
    return table.version() - declaration_count, files_on_disk - {str(Path(file)) for file in table.file_uris()}


class Tables:
    """The merged table, its rejected records and its derived tables."""

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
        """Return the positions of all records that were ever rejected."""
        return {position(row) for row in rows_of(self._settings, self._table.rejected_name)}

    def merged(self) -> dict[Key, Row]:
        rows = rows_of(self._settings, self._table.name)
        rows_by_key = {_key(row): self._as_stored(row) for row in rows}
        assert len(rows_by_key) == len(rows), "a key has two rows"
        assert all(row["observed_month"] == row["observed_at"].date().replace(day=1) for row in rows)
        return rows_by_key

    def deletes(self) -> dict[Key, Order | None]:
        """Return the newest delete of each key; check that no row, and no kept value, is older than it.

        A run that loses a race may leave another version as the newest one, until the next batch.
        """
        newest = self.ledger().newest
        counted_version = newest.commit.deletes_table.version if newest and newest.commit.deletes_table else None
        rows = rows_of(self._settings, self._table.deletes_name, counted_version)
        deletes = {_key(row): self._order(row) for row in rows}
        for key, row in self.merged().items():
            delete = deletes.get(key)
            assert delete is None or row.order > delete, "an older record brought a deleted row back"
            assert delete is None or row.temperature_order is None or row.temperature_order > delete
        return deletes

    def rejected(self, ledger: Ledger) -> dict[Position, str]:
        """Return the positions below the progress that no valid commit has resolved, with their reasons.

        If the table reads several topics, a partition is (source, number), and those of a former topic count, too.
        """
        progress, former_sources = self.progress(ledger), self._former_sources(ledger)
        reasons: dict[Position, str] = {}
        for row in rows_of(self._settings, self._table.rejected_name):
            (number, offset, *index), resolved_number = position(row), row["resolved_number"]
            source = row["position"]["source"]
            partition = self._partition(source, number)
            place = (partition, offset, *index)
            assert place not in reasons, "a position has two rows"
            is_unresolved = resolved_number is None or resolved_number in ledger.undone_numbers
            if is_unresolved and (source in former_sources or offset < progress.get(partition, 0)):
                reasons[place] = row["reason"]
        return reasons

    def progress(self, ledger: Ledger) -> dict[Partition, int]:
        """Return the next offset to read of every partition."""
        parts = progress_by_source(ledger.newest.commit if ledger.newest else None)
        if not self._table.topics:
            return dict(ledger.progress.positions) if ledger.progress else {}
        return {(source.text, p): offset for source, positions in parts.items() for p, offset in positions.items()}

    def _former_sources(self, ledger: Ledger) -> set[str]:
        """The sources whose topic was created again and read since."""
        commit = ledger.newest.commit if ledger.newest else None
        if not self._table.topics or commit is None:
            return set()
        names = names_of_sources(commit)
        known_names = ledger.undone_sources | names
        progress = names_of_progress(commit)
        return {
            text for text, name in known_names.items() if progress and text not in progress and name in names.values()
        }

    def _partition(self, source: str | None, number: int | None) -> Partition:
        return (source, number) if self._table.topics else number

    def _as_stored(self, row: dict[str, Any]) -> Row:
        """Return the row for the model; a temperature without its own order has the order of its row."""
        order, temperature = self._order(row) or (), row["temperature_2m"]
        row_order = order if temperature is not None else None
        return Row(temperature, order, self._order(row, "temperature_2m") or row_order)

    def _order(self, row: dict[str, Any], kept_column: str | None = None) -> Order | None:
        set_by = origin(row, kept_column)
        if set_by.position is None:
            return None if set_by.base is None else (0, set_by.base)
        partition = self._partition(source_of(row, kept_column), set_by.partition)
        return 1, set_by.time, partition, set_by.position, *place_in_array(row, kept_column)

    def changes(self) -> set[tuple[Any, ...]]:
        rows = rows_of(self._settings, self._table.changes_name)
        assert not any(row["reconciled"] for row in rows)
        names = ("source_version", "change", "temperature_2m_before", "temperature_2m_after")
        changes = {(*_key(row), *(row[name] for name in names)) for row in rows}
        assert len(changes) == len(rows), "a change has two rows"
        return changes

    def rollup(self) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        rows = rows_of(self._settings, self._table.rollups[0].name)
        for row in rows:
            if row["temperature_avg"] is not None:
                row["temperature_avg"] = round(row["temperature_avg"], 9)
        names = (*_MEASURES, "first_observed_at", "last_observed_at")
        return {
            (row["latitude"], row["longitude"], row["observed_month"]): tuple(row[name] for name in names)
            for row in rows
        }


def _key(row: dict[str, Any]) -> Key:
    return row["latitude"], row["longitude"], row["observed_at"]
