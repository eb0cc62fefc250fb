"""Figures about a declared table, read from the tables themselves; they work for every declaration."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.declaration import Reference, Rollup, StreamTable
    from lakehouse.query import Result
    from lakehouse.settings import Settings

_MAX_GROUPS = 12  # named one by one


@dataclass(frozen=True)
class Figures:
    """What the demo shows about a table, without a JVM."""

    settings: "Settings"
    table: "StreamTable"

    def version(self) -> int:
        """The version of the merged table; -1 before it exists."""
        from lakehouse.ledger.ledger import ledger_of

        return ledger_of(self.settings, self.table.name).version

    def count(self) -> str:
        """How many rows the merged table has, and how they are spread over the groups of its first rollup."""
        ((rows,),) = self._query(f"SELECT count(*) FROM {identifier(self.table.name)}").rows
        if not self.table.rollups:
            return f"{rows:,} rows"
        groups = self._query(
            f"SELECT {self._label}, count(*) FROM {self._joined} GROUP BY {self._group} ORDER BY ALL"
        ).rows
        noun = self._reference.name if self._reference else "groups"
        return f"{rows:,} rows, {_spread([(str(name), int(count)) for name, count in groups], noun)}"

    def changes_since(self, version: int) -> str:
        """How many rows were inserted, updated and deleted after a version, from the change feed.

        A log table has no feed: its own history has the counts.
        """
        if self.table.is_log:
            inserted = self._inserted_since(version)
            return f"{inserted:,} rows inserted" if inserted else "no row changed"
        feed = f"FROM {identifier(self.table.changes_name)} WHERE source_version > {version}"
        counts = dict(self._query(f"SELECT change, count(*) {feed} GROUP BY change").rows)
        words = (("insert", "inserted"), ("update", "changed"), ("delete", "deleted"))
        changes = [f"{counts[change]:,} rows {word}" for change, word in words if change in counts]
        return ", ".join(changes) or "no row changed"

    def _inserted_since(self, version: int) -> int:
        from lakehouse.ledger.ledger import ledger_of

        ledger = ledger_of(self.settings, self.table.name)
        return sum(entry.metrics.inserted for entry in ledger.entries if entry.version > version)

    def newest_of_one_group(self, rollup: "Rollup", limit: int = 12) -> "tuple[str, Result]":
        """The name of one group of a rollup, and the newest rows of the group, without its times."""
        ((name, *values),) = self._query(
            f"SELECT {self._label}, {self._group} FROM {self._joined} GROUP BY {self._group} ORDER BY ALL LIMIT 1"
        ).rows
        conditions = [f"{identifier(c)} = {_literal(v)}" for c, v in zip(self._columns, values, strict=True)]
        other_columns = [identifier(column) for column in rollup.by if column not in self._columns]
        measures = [identifier(name) for name, measure in rollup.measures.items() if measure.type != "TIMESTAMP"]
        selected = ", ".join((*other_columns, *measures))
        rows = f"SELECT {selected} FROM {identifier(rollup.name)} WHERE {' AND '.join(conditions) or 'true'}"
        newest_rows = f"{rows} ORDER BY {', '.join(other_columns) or '1'} DESC LIMIT {limit}"
        return str(name), self._query(f"SELECT * FROM ({newest_rows}) ORDER BY 1")

    @property
    def _columns(self) -> list[str]:
        """The columns that the first rollup groups by, without the partition column unless it is the only one."""
        partition = self.table.partition_by.name if self.table.partition_by else None
        by = list(self.table.rollups[0].by)
        return [column for column in by if column != partition] or by

    @property
    def _group(self) -> str:
        return ", ".join(f"t.{identifier(column)}" for column in self._columns)

    @property
    def _reference(self) -> "Reference | None":
        """The reference table that describes the groups."""
        columns = set(self._columns)
        return next((reference for reference in self.table.references if set(reference.key) <= columns), None)

    @property
    def _label(self) -> str:
        """The name of a group: the first text column of its reference table, or else its own values."""
        text_columns = [c.name for c in self._reference.columns if c.type == "STRING"] if self._reference else []
        return f"any_value(r.{identifier(text_columns[0])})" if text_columns else f"concat_ws(', ', {self._group})"

    @property
    def _joined(self) -> str:
        if self._reference is None:
            return f"{identifier(self.table.name)} t"
        reference, key = identifier(self._reference.name), ", ".join(map(identifier, self._reference.key))
        return f"{identifier(self.table.name)} t LEFT JOIN {reference} r USING ({key})"

    def _query(self, sql: str) -> "Result":
        from lakehouse.cli.arguments import table_names
        from lakehouse.query import query

        return query(self.settings, sql, table_names(self.settings))


def _spread(groups: list[tuple[str, int]], noun: str) -> str:
    """Counts of groups in words: the most frequent count once, and the groups with other counts by name."""
    if not groups:
        return "none"
    common, group_count = Counter(count for _, count in groups).most_common(1)[0]
    exceptions = [f"{count:,} at {name}" for name, count in groups if count != common]
    if len(exceptions) > _MAX_GROUPS:
        counts = [count for _, count in groups]
        return f"{min(counts):,} to {max(counts):,} at each of {len(groups)} {noun}"
    return ", ".join([f"{common:,} at each of {group_count} {noun}", *exceptions])


def identifier(name: str) -> str:
    """A declared name as a DuckDB identifier, even if it is a keyword."""
    return f'"{name}"'


def _literal(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
