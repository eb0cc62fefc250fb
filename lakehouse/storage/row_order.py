"""The order of rows: what makes one newer than another, as the merged table stores it and as SQL compares it.

It is total: a declared version column first, then the source's own order (``sequence``, NULL where it has none, as a
topic of Kafka), then broker timestamp, partition, position and, for rows without a position, the number of the commit
that brought them from the base table. It is stored in one column (``_record``; of kept columns in ``_kept``) and
compared as a struct built in place, in which NULL is smallest: base rows are older than any record.
"""

from dataclasses import dataclass

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.snapshot import facts_of
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn

_SOURCE = "Which source, as kind:identity; of Kafka the ids of cluster and topic, as kafka:CLUSTER/TOPIC."
POSITION = (
    TableColumn("source", "STRING", _SOURCE),
    TableColumn("partition", "INT", "Partition of the source."),
    TableColumn("position", "BIGINT", "Position in the partition; of Kafka the offset."),
    TableColumn("sequence", "BIGINT", "Place in the source's own order; NULL where it has none, as Kafka."),
)
"""Where a record stands, the same in every table that names one."""
_PLACE = ("source", "partition", "position")
IDENTITY_FIELDS = (*_PLACE, "time")
"""What tells a record from any other: its sequence does not, which may be learned later."""
_LOGGED = (*POSITION, TableColumn("time", "TIMESTAMP", "When the broker got the record, UTC."))
ORDER = (*_LOGGED, TableColumn("base", "BIGINT", "Number of the commit that brought the base row; NULL for records."))
"""What a record or a base row stands by; of a base row all but ``base`` is NULL."""
KEPT = "_kept"
_RECORD_DOC = "The newest record of the row, or where its base row came from."
_LOGGED_DOC = "The record of the row: where it stands, and when the broker got it."
_KEPT_DOC = "Of each column that is merged by itself, what it came with."


def merged_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the merged table is stored: declared columns, partition column, the order of the row and of kept columns.

    Of a log table, whose rows replace none, the record of the row instead of its order.
    """
    columns = [TableColumn.declared(column) for column in table.stored]
    said = (_LOGGED_DOC, _LOGGED) if table.is_log else (_RECORD_DOC, ORDER)
    columns.append(TableColumn.struct(RECORD, *said))
    if table.keep:
        orders = [TableColumn.struct(n, _kept_doc(n), kept_order(table)) for n in table.keep]
        columns.append(TableColumn.struct(KEPT, _KEPT_DOC, orders))
    named = table.key or [*(c.name for c in table.columns if c.type in ("TIMESTAMP", "DATE")), RECORD]
    return Layout(
        table.name,
        settings.table_uri(table.name),
        table.doc,
        columns,
        table.partition_by.name if table.partition_by else None,
        statistics=[*named, *(name for name in table.cluster_by if name not in named)],
        change_data=True,
        retention=table.retention,
        anchors=[*table.key, RECORD],
        key=table.key,
        declaration=table.fingerprint,
        cluster_by=table.cluster_by,
        of=table.name,
        fixed=[*table.key, *([table.version] if table.version else [])],
        declares=facts_of(table),
        kept_by=table.version or "" if table.keep else "",
        sync=settings.sync,
    )


def identity(table: StreamTable) -> tuple[str, ...]:
    """What tells one row of the merged table from another, in SQL: the key, or place and time of the row's record."""
    return tuple(f"`{name}`" for name in table.key) or tuple(f"{RECORD}.{name} AS _{name}" for name in IDENTITY_FIELDS)


def same_place(one: str, other: str) -> str:
    """Whether two records stand at the same place, in SQL; the source's own order is no part of it."""
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in _PLACE)


def same_record(one: str, other: str, *more: str) -> str:
    """Whether two rows name the same record, in SQL, and have the same in ``more``; NULL equals NULL."""
    return " AND ".join(f"{one}.{name} <=> {other}.{name}" for name in (*IDENTITY_FIELDS, *more))


def kept_order(table: StreamTable) -> tuple[TableColumn, ...]:
    """The fields of the order of a kept column: as those of a row, and the declared version."""
    if not table.version:
        return ORDER
    return (
        TableColumn("version", table.by_name[table.version].type, "Version of the record; NULL is oldest."),
        *ORDER,
    )


def _kept_doc(name: str) -> str:
    return f"The record {name} came with."


def order_of(table: StreamTable, side: str = "", name: str | None = None) -> str:
    """The order of a row, or of a kept column of it, as a SQL struct that compares rightly.

    ``side`` is the alias of a row as it is stored (``t``) or is going to be (``s``); without one, of a record that was
    read.
    """
    at = _came_with(table, side, name)
    by_time = ("sequence", "time", "partition", "position")
    parts = [at[name] for name in (("position",) if table.order == "offset" else by_time)]
    if table.version:
        # a version counts between records only: base rows are older whatever they say
        parts.insert(0, f"IF({at['position']} IS NULL, NULL, {at['version']})")
    return f"struct({', '.join([*parts, at['base']])})"


def _came_with(table: StreamTable, side: str, name: str | None) -> dict[str, str]:
    """The fields of an order in SQL."""
    if name and side == "t":
        return stored_with(table, name)
    before = (f"{side}.{KEPT}.`{name}`." if name else f"{side}.{RECORD}.") if side else "_"
    version = f"{before}version" if name else f"{side}.`{table.version}`" if side else f"`{table.version}`"
    return {"version": version} | {c.name: f"{before}{c.name}" for c in ORDER}


def stored_with(table: StreamTable, name: str) -> dict[str, str]:
    """What the stored value (of ``t``) of a kept column came with: the fields of its order in SQL.

    A value without an order beside it came while the column was not kept: with its row. Where there is an order and no
    value, that was erased by the record. The version of an order from
    before one was declared is that of the row, where both came with one record; else nobody knows it, and it is NULL.
    """
    kept, row = f"t.{KEPT}.`{name}`.", f"t.{RECORD}."
    with_row = f"{kept}position IS NULL AND {kept}base IS NULL AND t.`{name}` IS NOT NULL"
    fields = {c.name: f"IF({with_row}, {row}{c.name}, {kept}{c.name})" for c in ORDER}
    if table.version:
        same = " AND ".join(f"{fields[each]} = {row}{each}" for each in ("source", "position", "partition", "time"))
        fields["version"] = f"IF({kept}version IS NULL AND {same}, t.`{table.version}`, {kept}version)"
    return fields


@dataclass(frozen=True)
class Newer:
    """When a source row ``s`` is newer than the target row ``t``: as a whole, and for each kept column."""

    row: str
    keep: dict[str, str]


def newer_than_stored(table: StreamTable) -> Newer:
    """When a source row is newer than the stored one of its key.

    Where it brings nothing for a kept column it has no order of it, which is newer than none.
    """

    def beats(name: str | None = None) -> str:
        return f"{order_of(table, 's', name)} > {order_of(table, 't', name)}"

    return Newer(f"({beats()})", {name: f"({beats(name)})" for name in table.keep})
