"""Rows as a database can hold them: a value that it cannot hold is refused, or its row is left out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import TableError
from lakehouse.exports.row_texts import json_line, value_text
from lakehouse.sinks.changed_rows import GONE, UNFIT, SourceRows
from lakehouse.sinks.database_session import DatabaseSession
from lakehouse.sinks.postgres_sql import PostgresSql
from lakehouse.sinks.sql_server_sql import SqlServerSql

TargetSql = PostgresSql | SqlServerSql
Arrays = dict[str, pa.Array]
JSON = pa.large_string()
"""The type of nested values in the rows that are written; no other column has it."""
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())


class Copied(NamedTuple):
    """How many rows were copied, and how many of them say that a row is gone."""

    rows: int
    gone_rows: int


class Unfit(NamedTuple):
    """Which values of a column a database cannot hold, and why: ``reason`` goes on after the name of the column."""

    values: pa.Array
    reason: str


class RowForm(ABC):
    """How the rows of a table are written for one kind of database."""

    @abstractmethod
    def sql(self, source: SourceRows) -> TargetSql:
        """The statements of the target of a sink, as its table is now."""

    @abstractmethod
    def convert(self, column: pa.Array) -> pa.Array:
        """Return values as they are written."""

    @abstractmethod
    def find_unfit(self, column: pa.Array, key_type: str) -> Iterator[Unfit]:
        """Find values of a converted column that the database cannot hold.

        ``key_type`` is the type that the column has as a part of the identity, or empty.
        """

    @abstractmethod
    def send(self, session: DatabaseSession, sql: TargetSql, table: str, batches: Iterator[pa.RecordBatch]) -> None:
        """Copy fitting rows into the target or the stage."""

    def copy(self, session: DatabaseSession, sql: TargetSql, table: str, batches: Iterable[pa.RecordBatch]) -> Copied:
        """Copy rows into the target, or into the stage with the columns that only it has, as ``fit`` yields them."""
        counts = list[Copied]()

        def fitting_batches() -> Iterator[pa.RecordBatch]:
            for batch, count in self.fit(batches, sql, sql.columns_of(table)):
                counts.append(count)
                yield batch

        self.send(session, sql, table, fitting_batches())
        return Copied(*map(sum, zip(*counts, strict=True))) if counts else Copied(0, 0)

    def fit(
        self, batches: Iterable[pa.RecordBatch], sql: TargetSql, names: Sequence[str]
    ) -> Iterator[tuple[pa.RecordBatch, Copied]]:
        """Yield the columns ``names`` of rows as they are written, with their count.

        If ``UNFIT`` is one of them, a row that the database cannot hold is written as one that is gone, with the name
        of a column that it cannot hold. Else ``TableError``, which names the row by its identity; also if that is what
        it cannot hold.
        """
        for read_batch in batches:
            batch = self._without_impossible(read_batch, sql)
            arrays = {name: self.convert(batch.column(name)) for name in names if name != UNFIT}
            if UNFIT in names:
                arrays = self._leave_out_unfit(arrays, batch, sql)
            self._require_fit(arrays, batch, sql)
            gone_rows = pc.sum(arrays.get(GONE, batch.column(GONE))).as_py() or 0
            yield pa.record_batch([arrays[name] for name in names], names=[*names]), Copied(len(batch), gone_rows)

    def _unfit(self, arrays: Mapping[str, pa.Array], sql: TargetSql) -> Iterator[tuple[str, Unfit]]:
        for name, array in arrays.items():
            for unfit in self.find_unfit(array, sql.types[name] if name in sql.identity else ""):
                values = pc.fill_null(unfit.values, fill_value=False)
                if pc.any(values).as_py():
                    yield name, Unfit(values, unfit.reason)

    def _without_impossible(self, batch: pa.RecordBatch, sql: TargetSql) -> pa.RecordBatch:
        """Leave out rows that are gone, and that the database never had, because it cannot hold their identity."""
        if not pc.any(batch.column(GONE)).as_py():
            return batch
        is_impossible = pa.array([False] * len(batch))
        for _, unfit in self._unfit({name: self.convert(batch.column(name)) for name in sql.identity}, sql):
            is_impossible = pc.or_(is_impossible, unfit.values)
        return batch.filter(pc.invert(pc.and_(is_impossible, batch.column(GONE))))

    def _leave_out_unfit(self, arrays: Arrays, batch: pa.RecordBatch, sql: TargetSql) -> Arrays:
        """Return the arrays with ``UNFIT``: unfit rows are gone, and have only their identity."""
        unfit = pa.nulls(len(batch), pa.string())
        for name, misfit in self._unfit({name: arrays[name] for name in arrays if name not in sql.identity}, sql):
            unfit = pc.if_else(misfit.values, name, unfit)
        is_unfit, own_names = pc.is_valid(unfit), {*sql.identity, GONE}
        if not pc.any(is_unfit).as_py():
            return {**arrays, UNFIT: unfit}
        blank = {name: pc.if_else(is_unfit, None, array) for name, array in arrays.items() if name not in own_names}
        return {**arrays, **blank, GONE: pc.or_(batch.column(GONE), is_unfit), UNFIT: unfit}

    def _require_fit(self, arrays: Arrays, batch: pa.RecordBatch, sql: TargetSql) -> None:
        """Raise ``TableError`` if the database cannot hold a value."""
        for name, unfit in self._unfit(arrays, sql):
            row = batch.select([*sql.identity]).filter(unfit.values).slice(0, 1)
            values = (pc.cast(value, pa.string()) if pa.types.is_temporal(value.type) else value for value in row)
            texts = (value_text(value.to_pylist()[0]) for value in values)
            place = ", ".join(f"{part}={text}" for part, text in zip(sql.identity, texts, strict=True))
            action = f"Leave {name} out with columns=, declare unfit='leave_out', or correct the row."
            raise TableError(f"{name} of the row {place} {unfit.reason}", action=action)


def json_texts(column: pa.Array) -> pa.Array:
    """Return nested values as JSON, with decimals as text and bytes in base64."""
    values = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else json_line(value).rstrip() for value in values], JSON)


def map_values(column: pa.Array, type_: pa.DataType, text_of: Any) -> pa.Array:
    """Return the values of a column by a function; NULL stays NULL."""
    return pa.array([None if value is None else text_of(value) for value in column.to_pylist()], type_)
