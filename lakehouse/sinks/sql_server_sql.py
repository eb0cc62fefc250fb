"""The statements of a sink in SQL Server. Makes text; no input or output.

Text is compared by its code points (``_BIN2``). SQL Server takes texts for equal that differ only in spaces at their
end, and bytes that differ only in zeros there, so their lengths are compared too.
"""

from collections.abc import Iterable, Mapping, Sequence

from lakehouse.query.connections import quoted_text
from lakehouse.sinks.changed_rows import GONE, UNFIT
from lakehouse.sinks.database_session import bracketed
from lakehouse.sinks.target_sql import PROGRESS_COLUMNS, TargetParts

COLLATION = "Latin1_General_100_BIN2"
_NAME = f"nvarchar(300) COLLATE {COLLATION} NOT NULL"
_OWN_TYPES = {"version": "bigint NOT NULL", "columns": "nvarchar(max) NOT NULL", "identity": "nvarchar(max) NOT NULL"}


class SqlServerSql(TargetParts):
    """The statements of a target in SQL Server. Only the connection of a run has the stage."""

    stage = "[#lakehouse_stage]"
    many_rows = 0

    @property
    def prepare_stage(self) -> str:
        """Refuse two rows of one identity: an update would take any of them."""
        return f"CREATE UNIQUE CLUSTERED INDEX [lakehouse_identity] ON {self.stage} ({self._key})"

    @property
    def create(self) -> str:
        """Create the target, without a key: rows are copied before it has one."""
        return f"CREATE TABLE {self.name} ({self._definitions(self.types)})"

    @property
    def add_identity(self) -> str:
        """Make the identity unique; an index takes two NULL for the same."""
        if self.can_be_null:
            return f"CREATE UNIQUE INDEX [lakehouse_identity] ON {self.name} ({self._key})"
        return f"ALTER TABLE {self.name} ADD PRIMARY KEY ({self._key})"

    def change_columns(self, stored_types: Mapping[str, str], former_names: Iterable[str]) -> list[str]:
        """Drop columns that are former or of another type, and add those that are missing then."""
        other_names = [name for name, type_ in self.types.items() if stored_types.get(name, type_) != type_]
        new_names = [name for name in self.types if name not in stored_types or name in other_names]
        if set(new_names) & {*self.identity}:  # of another type: a key cannot be changed alone
            return [f"DROP TABLE {self.name}", self.create, self.add_identity]
        drop = [f"ALTER TABLE {self.name} DROP COLUMN {bracketed(name)}" for name in (*former_names, *other_names)]
        columns = (self._definitions({name: self.types[name]}) for name in new_names)
        return [*drop, *(f"ALTER TABLE {self.name} ADD {column}" for column in columns)]

    @property
    def create_stage(self) -> str:
        """Create the table for the rows of a run."""
        return f"CREATE TABLE {self.stage} ({self._definitions(self.types_of(self.stage))})"

    def copy(self, table: str) -> str:
        """Load rows in the bulk load of the protocol."""
        columns = ", ".join(f"{bracketed(name)} {type_}" for name, type_ in self.types_of(table).items())
        return f"INSERT BULK {table} ({columns}) WITH (TABLOCK)"

    def types_of(self, table: str) -> Mapping[str, str]:
        """The columns of the target or of the stage, with their types."""
        own_types = {GONE: "bit", UNFIT: "nvarchar(300)"}
        return {name: self.types.get(name) or own_types[name] for name in self.columns_of(table)}

    @property
    def delete_gone(self) -> str:
        """Delete the rows of which the stage says that they are gone."""
        join = f"{self.name} AS t JOIN {self.stage} AS s ON {self._same_identity}"
        return f"DELETE t FROM {join} WHERE s.{bracketed(GONE)} = 1"

    @property
    def delete_missing(self) -> str:
        """Delete the rows that the stage does not have."""
        return f"DELETE t FROM {self.name} AS t WHERE NOT EXISTS ({self._in_stage})"

    @property
    def upsert(self) -> Sequence[str]:
        """Update the rows of the target that differ, then insert those that it does not have."""
        names = [*map(bracketed, self.types)]
        changes = ", ".join(f"{name} = s.{name}" for name in map(bracketed, self._values))
        rows = f"SELECT {', '.join(f's.{name}' for name in names)} FROM {self.stage} AS s"
        missing = f"s.{bracketed(GONE)} = 0 AND NOT EXISTS ({self._in_target})"
        update = (
            f"UPDATE t SET {changes} FROM {self.name} AS t JOIN {self.stage} AS s ON {self._same_identity}"
            f" WHERE s.{bracketed(GONE)} = 0 AND {self._differs}"
        )
        insert = f"INSERT INTO {self.name} ({', '.join(names)}) {rows} WHERE {missing}"
        return [update, insert] if changes else [insert]

    @property
    def count_differences(self) -> str:
        """Count the rows of the stage that the target misses, that only it has, and that have other values."""
        stage_rows = f"FROM {self.stage} AS s WHERE s.{bracketed(GONE)} = 0"
        both = f"FROM {self.name} AS t JOIN {self.stage} AS s ON {self._same_identity} WHERE s.{bracketed(GONE)} = 0"
        counts = (
            f"{stage_rows} AND NOT EXISTS ({self._in_target})",
            f"FROM {self.name} AS t WHERE NOT EXISTS ({self._in_stage})",
            f"{both} AND {self._differs}",
        )
        return "SELECT " + ", ".join(f"(SELECT COUNT_BIG(*) {rows})" for rows in counts)

    def note_unfit(self, *, is_whole: bool) -> list[str]:
        """Note the keys of the rows of the stage that are left out; statements have places for target and version."""
        key = ", ".join(f"s.{bracketed(name)}" for name in self.identity).replace("%", "%%")
        key = f"(SELECT {key} FOR JSON PATH, INCLUDE_NULL_VALUES, WITHOUT_ARRAY_WRAPPER)"
        former = "" if is_whole else f" AND EXISTS (SELECT 1 FROM {self.stage} AS s WHERE u.[key] = {key})"
        table, unfit = self.unfit.replace("%", "%%"), f"s.{bracketed(UNFIT)}"
        columns = f"[target] {_NAME}, [key] nvarchar(max) COLLATE {COLLATION} NOT NULL, [column_name] {_NAME}"
        return [
            f"{_unless_exists(table)} CREATE TABLE {table} ({columns}, [version] bigint NOT NULL)",
            f"DELETE u FROM {table} AS u WHERE u.[target] = %(target)s{former}",
            f"INSERT INTO {table} ([target], [key], [column_name], [version]) SELECT %(target)s, {key}, {unfit},"
            f" %(version)s FROM {self.stage} AS s WHERE {unfit} IS NOT NULL",
        ]

    @property
    def create_progress(self) -> str:
        """Create the table with the progress of the targets in the schema."""
        columns = "".join(f"[{name}] {_OWN_TYPES.get(name, 'nvarchar(300) NULL')}, " for name in PROGRESS_COLUMNS)
        target, time = f"[target] {_NAME} PRIMARY KEY", "[updated_at] datetime2 NOT NULL"
        return f"{_unless_exists(self.progress)} CREATE TABLE {self.progress} ({target}, {columns}{time})"

    @property
    def record_progress(self) -> str:
        """Replace the row of the target, if that is still in the transaction of its rows."""
        table, names = self.progress.replace("%", "%%"), ("target", *PROGRESS_COLUMNS)
        columns, places = (", ".join(form.format(name) for name in names) for form in ("[{}]", "%({})s"))
        guard = "IF @@TRANCOUNT <> 1 THROW 50000, N'The database ended the transaction of the sink', 1"
        delete = f"DELETE FROM {table} WHERE [target] = %(target)s"
        insert = f"INSERT INTO {table} ({columns}, [updated_at]) VALUES ({places}, SYSUTCDATETIME())"
        return f"{guard}; {delete}; {insert}"

    @property
    def _key(self) -> str:
        return ", ".join(map(bracketed, self.identity))

    @property
    def _values(self) -> list[str]:
        return [name for name in self.types if name not in self.identity]

    @property
    def _same_identity(self) -> str:
        """The condition that a row of the target and one of the stage have the same identity."""
        names = [*map(bracketed, self.identity)]
        if self.can_be_null:  # takes NULL for equal to NULL
            return f"EXISTS (SELECT {_columns('t', names)} INTERSECT SELECT {_columns('s', names)})"
        return " AND ".join(f"t.{name} = s.{name}" for name in names)

    @property
    def _in_stage(self) -> str:
        return f"SELECT 1 FROM {self.stage} AS s WHERE s.{bracketed(GONE)} = 0 AND {self._same_identity}"

    @property
    def _in_target(self) -> str:
        return f"SELECT 1 FROM {self.name} AS t WHERE {self._same_identity}"

    @property
    def _differs(self) -> str:
        """The condition that a value of the target differs from that of the stage; 0.0 and -0.0 differ too."""
        if not self._values:
            return "1 = 0"
        selected = (", ".join(self._compared(row, name) for name in self._values) for row in ("t", "s"))
        return f"NOT EXISTS (SELECT {' INTERSECT SELECT '.join(selected)})"

    def _compared(self, row: str, name: str) -> str:
        value, type_ = f"{row}.{bracketed(name)}", self.types[name]
        if type_ in ("float", "real"):
            return f"CONVERT(binary(8), CONVERT(float, {value}))"
        return f"{value}, DATALENGTH({value})" if "(max)" in type_ else value

    def _definitions(self, types: Mapping[str, str]) -> str:
        """Return the columns of a statement that creates or adds them."""
        texts = (
            f"{bracketed(name)} {type_}{f' COLLATE {COLLATION}' if type_.startswith('nvarchar') else ''}"
            f"{' NOT NULL' if name in self.identity and not self.can_be_null else ' NULL'}"
            for name, type_ in types.items()
        )
        return ", ".join(texts)


def _columns(row: str, names: Iterable[str]) -> str:
    return ", ".join(f"{row}.{name}" for name in names)


def _unless_exists(table: str) -> str:
    return f"IF OBJECT_ID(N{quoted_text(table)}, N'U') IS NULL"
