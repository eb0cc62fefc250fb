"""The order of rows: what makes one newer than another, as the merged table stores it and as SQL compares it.

It is total: a declared version column first, then broker timestamp, partition, offset and, for rows without an
offset, the number of the commit that brought them from the base table. It is stored in one column (``_record``; of
kept columns in ``_kept``) and compared as a struct built in place, in which NULL is smallest: base rows are older
than any record.
"""

from dataclasses import dataclass

from lakehouse.declaration import StreamTable
from lakehouse.delta.layout import Former, Layout, TableColumn
from lakehouse.settings import Settings

ORDER = (
    TableColumn("time", "TIMESTAMP", "When the broker got the record, UTC; NULL for base rows."),
    TableColumn("partition", "INT", "Partition of the record; NULL for base rows."),
    TableColumn("offset", "BIGINT", "Offset of the record; NULL for base rows."),
    TableColumn("base", "BIGINT", "Number of the commit that brought the base row; NULL for records."),
)
RECORD, KEPT = "_record", "_kept"


def merged_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the merged table is stored: declared columns, partition column, the order of the row and of kept columns."""
    columns = [TableColumn(c.name, c.type, c.doc) for c in table.columns]
    if table.partition_by:
        columns.append(TableColumn(table.partition_by.name, "DATE", "First day of the month; partition column."))
    columns.append(TableColumn.struct(RECORD, "The newest record of the row, or where its base row came from.", ORDER))
    if table.keep:
        orders = [TableColumn.struct(n, f"The record {n} came with.", kept_order(table)) for n in table.keep]
        columns.append(TableColumn.struct(KEPT, "Of each column that is merged by itself, what it came with.", orders))
    return Layout(
        table.name,
        settings.table_uri(table.name),
        table.doc,
        columns,
        table.partition_by.name if table.partition_by else None,
        statistics=table.key,
        change_data=True,
        retention=table.retention,
        anchors=[*table.key, RECORD],
        declaration=table.fingerprint,
        former=Former("kafka_offset", lambda: _from_flat_columns(table)),
    )


def kept_order(table: StreamTable) -> tuple[TableColumn, ...]:
    """The fields of the order of a kept column: as those of a row, and the declared version."""
    if not table.version:
        return ORDER
    return (
        TableColumn("version", table.by_name[table.version].type, "Version of the record; NULL is oldest."),
        *ORDER,
    )


def _from_flat_columns(table: StreamTable) -> dict[str, str]:
    """The orders as a table of metadata version 1 holds them; base rows are then older than any to come."""

    def order(prefix: str, *version: str) -> str:
        names = ("kafka_timestamp", "kafka_partition", "kafka_offset")
        parts = [*version, *(f"`{prefix}{name}`" for name in names), f"IF(`{prefix}base_version` IS NULL, NULL, 0L)"]
        return f"struct({', '.join(parts)})"

    own = {name: [f"`{name}_{table.version}`"] if table.version else [] for name in table.keep}
    kept = ", ".join(order(f"{name}_", *version) for name, version in own.items())
    return {RECORD: order("")} | ({KEPT: f"struct({kept})"} if kept else {})


def order_of(table: StreamTable, side: str = "", name: str | None = None) -> str:
    """The order of a row, or of a kept column of it, as a SQL struct that compares rightly.

    ``side`` is the alias of a row as it is stored; without one, of a record that was read.
    """
    stored = f"{side}.{RECORD}." if name is None else f"{side}.{KEPT}.`{name}`."
    at = {c.name: f"{stored}{c.name}" if side else f"_{c.name}" for c in ORDER}
    parts = [at["offset"]] if table.order == "offset" else [at["time"], at["partition"], at["offset"]]
    if table.version:
        version = f"{stored}version" if side and name else f"{side}.`{table.version}`" if side else f"`{table.version}`"
        # a version counts between records only: base rows are older whatever they say
        parts.insert(0, f"IF({at['offset']} IS NULL, NULL, {version})")
    return f"struct({', '.join([*parts, at['base']])})"


@dataclass(frozen=True)
class Newer:
    """When a source row ``s`` is newer than the target row ``t``: as a whole, and for each kept column."""

    row: str
    keep: dict[str, str]

    @property
    def anything(self) -> str:
        """Whether the source row brings anything."""
        return " OR ".join([self.row, *self.keep.values()])


def newer_than_stored(table: StreamTable) -> Newer:
    """When a source row is newer than the stored one of its key."""

    def beats(name: str | None = None) -> str:
        return f"{order_of(table, 's', name)} > {order_of(table, 't', name)}"

    return Newer(f"({beats()})", {name: f"(s.`{name}` IS NOT NULL AND {beats(name)})" for name in table.keep})
