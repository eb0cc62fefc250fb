"""The statements of a sink in PostgreSQL. Makes text; no input or output."""

from collections.abc import Iterable, Mapping, Sequence

from lakehouse.query.connections import quoted_name, quoted_text
from lakehouse.sinks.changed_rows import GONE, UNFIT
from lakehouse.sinks.target_sql import PROGRESS_COLUMNS, TargetParts

_STAGE = "lakehouse_stage"
_EXISTS = "lakehouse_exists"
_OWN_TYPES = {
    "version": "bigint NOT NULL",
    "commit_id": "text",
    "columns": "text[] NOT NULL",
    "identity": "text[] NOT NULL",
}


class PostgresSql(TargetParts):
    """The statements of a target in PostgreSQL."""

    stage = _STAGE
    many_rows = 10_000
    """From here on, a plan without statistics is slow."""

    @property
    def prepare_stage(self) -> str:
        """Make statistics of the stage."""
        return f"ANALYZE {_STAGE}"

    @property
    def create(self) -> str:
        """Create the target, without a key: rows are copied before it has one."""
        return f"CREATE TABLE {self.name} ({definitions(self.types)})"

    @property
    def add_identity(self) -> str:
        """Make the identity unique; groups of a rollup may have NULL, all others have none."""
        names = ", ".join(map(quoted_name, self.identity))
        if self.can_be_null:
            return f"CREATE UNIQUE INDEX ON {self.name} ({names}) NULLS NOT DISTINCT"
        return f"ALTER TABLE {self.name} ADD PRIMARY KEY ({names})"

    def change_columns(self, stored_types: Mapping[str, str], former_names: Iterable[str]) -> list[str]:
        """Drop former columns, and add or change those that are not stored so; values are written afterwards."""
        actions = [f"DROP COLUMN {quoted_name(name)}" for name in former_names]
        for name, type_ in self.types.items():
            if name not in stored_types:
                actions.append(f"ADD COLUMN {definitions({name: type_})}")
            elif stored_types[name] != type_:
                actions.append(f"ALTER COLUMN {quoted_name(name)} TYPE {type_} USING NULL::{type_}")
        has_other_key = any(stored_types[name] != self.types[name] for name in self.identity if name in stored_types)
        clear = [f"DELETE FROM {self.name}"] if has_other_key else []
        return [*clear, f"ALTER TABLE {self.name} {', '.join(actions)}"] if actions else []

    @property
    def create_stage(self) -> str:
        """Create the table for the rows of a run."""
        columns = definitions({**self.types, GONE: "boolean", **({UNFIT: "text"} if self.unfit else {})})
        return f"CREATE TEMPORARY TABLE {_STAGE} ({columns}) ON COMMIT DROP"

    def copy(self, table: str) -> str:
        """Copy rows as CSV."""
        columns = ", ".join(map(quoted_name, self.columns_of(table)))
        return f"COPY {table} ({columns}) FROM STDIN (FORMAT csv)"

    @property
    def delete_gone(self) -> str:
        """Delete the rows of which the stage says that they are gone."""
        return f"DELETE FROM {self.name} t USING {_STAGE} s WHERE s.{quoted_name(GONE)} AND {self._same_identity}"

    @property
    def delete_missing(self) -> str:
        """Delete the rows that the stage does not have."""
        rows = f"SELECT FROM {_STAGE} s WHERE NOT s.{quoted_name(GONE)} AND {self._same_identity}"
        return f"DELETE FROM {self.name} t WHERE NOT EXISTS ({rows})"

    @property
    def upsert(self) -> Sequence[str]:
        """Insert or update the rows of the stage that are not in the target so."""
        names, identity = [*map(quoted_name, self.types)], [*map(quoted_name, self.identity)]
        changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in identity)
        update = f"UPDATE SET {changes} WHERE {self._differs_from('excluded')}" if changes else "NOTHING"
        rows = f"SELECT {', '.join(names)} FROM {_STAGE} s WHERE NOT s.{quoted_name(GONE)}"
        conflict = f"ON CONFLICT ({', '.join(identity)}) DO {update}"
        return [f"INSERT INTO {self.name} AS t ({', '.join(names)}) {rows} {conflict}"]

    @property
    def count_differences(self) -> str:
        """Count the rows of the stage that the target misses, that only it has, and that have other values."""
        both = f"t.ctid IS NOT NULL AND s.{_EXISTS} AND {self._differs_from('s')}"
        conditions = ("t.ctid IS NULL", f"s.{_EXISTS} IS NULL", both)
        counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions)
        rows = f"(SELECT *, true AS {_EXISTS} FROM {_STAGE} WHERE NOT {quoted_name(GONE)}) s"
        return f"SELECT {counts} FROM {rows} FULL JOIN {self.name} t ON {self._same_identity}"

    def note_unfit(self, *, is_whole: bool) -> list[str]:
        """Note the keys of the rows of the stage that are left out; statements have places for target and version."""
        pairs = ", ".join(f"{quoted_text(name)}, s.{quoted_name(name)}" for name in self.identity)
        key, unfit = f"jsonb_build_object({pairs})".replace("%", "%%"), f"s.{quoted_name(UNFIT)}"
        former = "" if is_whole else f" AND EXISTS (SELECT FROM {_STAGE} s WHERE u.key = {key})"
        table = self.unfit.replace("%", "%%")
        return [
            f"CREATE TABLE IF NOT EXISTS {table} (target text, key jsonb, column_name text NOT NULL, version bigint NOT"
            " NULL, PRIMARY KEY (target, key))",
            f"DELETE FROM {table} u WHERE u.target = %(target)s{former}",
            f"INSERT INTO {table} SELECT %(target)s, {key}, {unfit}, %(version)s FROM {_STAGE} s WHERE {unfit} IS NOT"
            " NULL",
        ]

    @property
    def create_progress(self) -> str:
        """Create the table with the progress of the targets in the schema."""
        columns = "".join(f"{name} {_OWN_TYPES.get(name, 'text NOT NULL')}, " for name in PROGRESS_COLUMNS)
        target, time = "target text PRIMARY KEY", "updated_at timestamptz NOT NULL"
        return f"CREATE TABLE IF NOT EXISTS {self.progress} ({target}, {columns}{time})"

    @property
    def record_progress(self) -> str:
        """Record the version of the target; has a place for its name and for each column of the progress."""
        names = ("target", *PROGRESS_COLUMNS)
        places = ", ".join(f"%({name})s" for name in names)
        changes = ", ".join(f"{name} = excluded.{name}" for name in (*PROGRESS_COLUMNS, "updated_at"))
        insert = f"INSERT INTO {self.progress.replace('%', '%%')} ({', '.join(names)}, updated_at)"
        return f"{insert} VALUES ({places}, now()) ON CONFLICT (target) DO UPDATE SET {changes}"

    @property
    def _same_identity(self) -> str:
        """The condition that a row of the target and one of the stage have the same identity."""
        names = [*map(quoted_name, self.identity)]
        if self.can_be_null:  # as text, NULL equals NULL, and many rows can be joined at once
            return f"{_row('t', names)}::text = {_row('s', names)}::text"
        return " AND ".join(f"t.{name} = s.{name}" for name in names)

    def _differs_from(self, row: str) -> str:
        """The condition that a value of the target differs from that of another ``row``; 0.0 and -0.0 differ too."""
        names = [quoted_name(name) for name in self.types if name not in self.identity]
        return f"{_row('t', names)}::text IS DISTINCT FROM {_row(row, names)}::text" if names else "false"


def definitions(types: Mapping[str, str]) -> str:
    """Return the columns of a statement that creates or adds them."""
    return ", ".join(f"{quoted_name(name)} {type_}" for name, type_ in types.items())


def _row(table: str, names: Iterable[str]) -> str:
    return f"ROW({', '.join(f'{table}.{name}' for name in names)})"
