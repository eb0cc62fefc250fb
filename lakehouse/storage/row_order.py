"""The order of rows: how the merged table stores it, and how SQL decides which row is newer.

The order is total. It compares the declared version column first, then the source's own order (``sequence``, NULL if
the source has none, like Kafka), then broker timestamp, partition and position; the source comes before the partition
if the table reads several topics. The clock of a broker may go back, so a record has at least the time of the records
before it in its partition: of two records of a partition, the later one is newer. In a change stream, it compares the
source's own order, then the position. Rows of one record are in the order of its array. Rows without a position are
compared by the number of the commit that inserted them from base files. The order is stored in one column (``_record``;
for kept columns in ``_kept``) and compared as a struct, in which NULL is smallest: base rows are older than any record.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.declaration.names import RECORD
from lakehouse.declaration.snapshot import facts_of
from lakehouse.declaration.sql import quoted
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.staged import DELETE
from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.ledger.positions import SourceId
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn, text_literal
from lakehouse.storage.merge_spec import NO_BOUNDS, ChangeBounds

_SOURCE = "The source, as kind:identity; for Kafka the ids of cluster and topic, as kafka:CLUSTER/TOPIC."
POSITION = (
    TableColumn("source", "STRING", _SOURCE),
    TableColumn("partition", "INT", "Partition of the source."),
    TableColumn("position", "BIGINT", "Position in the partition; for Kafka the offset."),
    TableColumn("sequence", "BIGINT", "Position in the source's own order; NULL if it has none, like Kafka."),
)
"""The position of a record, the same in every table that stores one."""
INDEX = TableColumn("index", "INT", "Place of the row in the array of its record, from 0.")
"""The place of a row in its record, in tables with ``rows_from``: the last field of each position."""
_TIME = "ordering time"
_POSITION_FIELDS = ("source", "partition", "position")
IDENTITY_FIELDS = (*_POSITION_FIELDS, "time")
"""The fields that identify a record. The sequence does not: it may become known later."""
_RECORD_FIELDS = (
    *POSITION,
    TableColumn("time", "TIMESTAMP", "When the broker received the record, UTC."),
    TableColumn(
        "order_time", "TIMESTAMP", "Time that orders the record, UTC, if its partition had a later one before."
    ),
)
_BASE_FIELD = TableColumn("base", "BIGINT", "Number of the commit that inserted the base row; NULL for records.")
ORDER = (*_RECORD_FIELDS, _BASE_FIELD)
"""The fields of the order of a record or a base row; of a base row all but ``base`` are NULL."""


def order_columns(table: TableParts) -> tuple[TableColumn, ...]:
    """Return the fields of the order of a row: ``ORDER``, and ``INDEX`` if a record has many rows."""
    return (*ORDER, INDEX) if table.has_elements else ORDER


def position_columns(table: TableParts) -> tuple[TableColumn, ...]:
    """Return the fields of the position of a row: ``POSITION``, and ``INDEX`` if a record has many rows."""
    return (*POSITION, INDEX) if table.has_elements else POSITION


def identity_fields(table: TableParts) -> tuple[str, ...]:
    """Return the names of the fields that identify a row of a log table."""
    return (*IDENTITY_FIELDS, INDEX.name) if table.has_elements else IDENTITY_FIELDS


KEPT = "_kept"
_KEYED_DOC = "The newest record of the row; for a base row, the commit that inserted it."
_LOG_DOC = "The record of the row: its position, and when the broker received it."
_KEPT_DOC = "For each kept column, the record that its value came from."


def merged_layout(table: TableParts, settings: Settings) -> Layout:
    """Return the layout of the merged table: declared columns, partition column, order of the row and of kept columns.

    A log table, whose rows replace none, stores the record of the row instead of its order.
    """
    columns = [TableColumn.from_declaration(column) for column in table.stored_columns]
    doc, fields = (_LOG_DOC, _RECORD_FIELDS) if table.is_log else (_KEYED_DOC, ORDER)
    fields = (*fields, INDEX) if table.has_elements else fields
    columns.append(TableColumn.struct(RECORD, doc, fields))
    if table.keep:
        orders = [TableColumn.struct(n, f"The record {n} came with.", kept_order(table)) for n in table.keep]
        columns.append(TableColumn.struct(KEPT, _KEPT_DOC, orders))
    time_columns = (column.name for column in table.columns if column.type in ("TIMESTAMP", "DATE"))
    has_stored_versions = {*table.version_columns} <= {column.name for column in table.record_columns}
    statistics = table.key or [*time_columns, RECORD]
    return Layout(
        table.name,
        settings.table_uri(table.name),
        table.doc,
        columns,
        table.partition_by.name if table.partition_by else None,
        statistics=[*statistics, *(name for name in table.upkeep.cluster_by if name not in statistics)],
        change_data=True,
        retention=table.upkeep.retention,
        anchors=[*table.key, RECORD],
        key=table.key,
        declaration=table.fingerprint,
        cluster_by=table.upkeep.cluster_by,
        deletion_vectors=table.upkeep.deletion_vectors,
        declaration_name=table.name,
        fixed_columns=[*table.key, *table.version_columns],
        declaration_facts=facts_of(table),
        kept_version_column=table.version_text or "" if table.keep or not has_stored_versions else "",
        rows_path=table.rows_path,
        sync=settings.sync,
    )


def identity(table: TableParts) -> tuple[str, ...]:
    """Return the SQL of what identifies a row of the merged table: the key, or position and time of its record."""
    record_fields = (f"{RECORD}.{name} AS _{name}" for name in identity_fields(table))
    return tuple(f"`{name}`" for name in table.key) or tuple(record_fields)


def same_place(left: str, right: str) -> str:
    """Return the SQL condition that two records have the same position; the source's own order is not part of it."""
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in _POSITION_FIELDS)


def same_record(table: TableParts, left: str, right: str, *fields: str) -> str:
    """Return the SQL condition that two rows have the same record, and the same place in it if it has many rows.

    They are also equal in ``fields``; NULL equals NULL.
    """
    return " AND ".join(f"{left}.{name} <=> {right}.{name}" for name in (*identity_fields(table), *fields))


def kept_order(table: TableParts) -> tuple[TableColumn, ...]:
    """Return the order fields of a kept column: those of a row, and the declared version."""
    doc = f"Version of the record; NULL is {'newest' if table.version_nulls == 'newest' else 'oldest'}."
    versions = (TableColumn(field, table.by_name[name].type, doc) for field, name in version_fields(table).items())
    return (*versions, *order_columns(table))


def version_fields(table: TableParts) -> dict[str, str]:
    """Return the names of the version columns, by the fields in which stored orders have them."""
    names = table.version_columns
    return {f"version_{name}" if names[1:] else "version": name for name in names}


def order_of(table: TableParts, bounds: ChangeBounds = NO_BOUNDS, fields: Mapping[str, str] | None = None) -> str:
    """Return the order of a record that was read, as a SQL struct that can be compared with others of its batch.

    ``fields`` are those of the order, in SQL, if they are not those of a staged row.
    """
    batch_fields = order_fields(table, "") | {"source": "CAST(NULL AS STRING)"}  # a batch has one source
    return _order_sql(table, fields or batch_fields, bounds, "true")


def compare_orders(
    table: TableParts, left: Mapping[str, str], operator: str, right: Mapping[str, str], bounds: ChangeBounds
) -> str:
    """Return the SQL condition of a comparison of two orders, given by their fields."""
    is_same_partition = " AND ".join(f"{left[name]} <=> {right[name]}" for name in ("source", "partition"))
    orders = (_order_sql(table, fields, bounds, is_same_partition) for fields in (left, right))
    return f" {operator} ".join(orders)


def _order_sql(table: TableParts, order: Mapping[str, str], bounds: ChangeBounds, is_same_partition: str) -> str:
    """Return an order in SQL. Positions before a snapshot are only raised to it if offsets can decide instead.

    A change may be newer than a snapshot and have a smaller position: its transaction was open then.
    """
    fields = {**order, _TIME: order_time(order)}
    parts = [fields[name] for name in _order_names(table)]
    if table.has_changes and bounds.snapshot is not None:
        parts[0] = f"IF({is_same_partition} AND {parts[0]} < {bounds.snapshot}, {bounds.snapshot}, {parts[0]})"
    versions = [fields[name] for name in version_fields(table)]
    if table.version_nulls == "newest":
        versions = [part for version in versions for part in (f"{version} IS NULL", version)]
    # versions order records only: base rows are older than records in any case
    parts = [*(f"IF({fields['position']} IS NULL, NULL, {version})" for version in versions), *parts]
    return f"struct({', '.join([*parts, fields['base']])})"


def order_time(fields: Mapping[str, str]) -> str:
    """Return the time that orders a record, in SQL, given by the fields of its order."""
    return f"coalesce({fields['order_time']}, {fields['time']})"


def _order_names(table: TableParts) -> tuple[str, ...]:
    """Return the fields that order records; times of the broker may repeat or go back within a change stream.

    Partitions and offsets of several topics say nothing about each other, so that the source comes before them.
    """
    if table.has_changes:
        return ("sequence", "position", "partition")
    source = ("source",) if table.topics else ()
    names = ("position",) if table.order == "offset" else ("sequence", _TIME, *source, "partition", "position")
    return (*names, INDEX.name) if table.has_elements else names


def order_fields(table: TableParts, side: str, name: str | None = None) -> dict[str, str]:
    """Return the fields of the order of a row, or of its kept column ``name``, in SQL, by name.

    ``side`` is the alias of a stored row (``t``), of a row to store (``s``) or of a delete (``d``). It is empty for a
    record that was read.
    """
    if name and side == "t":
        return stored_order_fields(table, name)
    prefix = (f"{side}.{KEPT}.`{name}`." if name else f"{side}.{RECORD}.") if side else "_"
    versions = {
        field: f"{prefix}{field}" if name else f"{side}.`{column}`" if side else f"`{column}`"
        for field, column in version_fields(table).items()
    }
    return versions | {field.name: f"{prefix}{field.name}" for field in order_columns(table)}


def stored_order_fields(table: TableParts, name: str) -> dict[str, str]:
    """Return the order fields, in SQL, of the stored value (of ``t``) of a kept column.

    A value without its own order was stored before the column was kept, so it has the order of its row. If there is an
    order but no value, the record erased the value. An order that is older than the version column has the version of
    the row if both come from the same record. Otherwise its version is unknown, and NULL.
    """
    kept_prefix, row_prefix = f"t.{KEPT}.`{name}`.", f"t.{RECORD}."
    has_row_order = f"{kept_prefix}position IS NULL AND {kept_prefix}base IS NULL AND t.`{name}` IS NOT NULL"
    fields = {
        field.name: f"IF({has_row_order}, {row_prefix}{field.name}, {kept_prefix}{field.name})"
        for field in order_columns(table)
    }
    if table.version_columns:
        names = ("source", "position", "partition", "time", *((INDEX.name,) if table.has_elements else ()))
        is_same_record = " AND ".join(f"{fields[name]} = {row_prefix}{name}" for name in names)
        for field, column in version_fields(table).items():
            version = f"{kept_prefix}{field}"
            fields[field] = f"IF({version} IS NULL AND {is_same_record}, t.`{column}`, {version})"
    return fields


@dataclass(frozen=True)
class NewerConditions:
    """SQL conditions that a source row ``s`` is newer than target row ``t``: as a whole, and for each kept column."""

    row: str
    keep: dict[str, str]


def newer_than_stored(table: TableParts, bounds: ChangeBounds = NO_BOUNDS) -> NewerConditions:
    """Return the conditions that a source row is newer than the stored row with its key.

    A source row without a value for a kept column has no order for it, and so it is never newer.
    """

    def is_newer(name: str | None = None) -> str:
        source_fields, stored_fields = (order_fields(table, side, name) for side in ("s", "t"))
        return f"({compare_orders(table, source_fields, '>', stored_fields, bounds)})"

    return NewerConditions(is_newer(), {name: is_newer(name) for name in table.keep})


def not_deleted(table: TableParts, bounds: ChangeBounds, side: str, name: str | None = None) -> str:
    """Return the condition that the stored delete (``d``) of a key spares a row, or its kept column ``name``.

    It is true if the key has no delete, and for the record of the delete itself: by a corrected declaration, it is a
    row. A column without a value has no order, and is older than any delete.
    """
    is_not_older = compare_orders(table, order_fields(table, side, name), ">=", order_fields(table, "d"), bounds)
    return f"(d.`{table.key[0]}` IS NULL OR {is_not_older})"


def not_deleted_now(table: TableParts, bounds: ChangeBounds, side: str, name: str | None = None) -> str:
    """Return the same condition for the newest delete of the batch (of ``s``).

    A stored row (``t``) is not spared from its own record if that is a delete by now.
    """
    operator, delete = (">" if side == "t" else ">="), _delete_fields(table)
    is_newer = compare_orders(table, order_fields(table, side, name), operator, delete, bounds)
    return f"({delete['position']} IS NULL OR {is_newer})"


def is_new_delete(table: TableParts, bounds: ChangeBounds, *, has_stored: bool) -> str:
    """Return the condition that the newest delete of the batch is newer than the stored one of its key, if any is."""
    delete = _delete_fields(table)
    is_newer = compare_orders(table, delete, ">", order_fields(table, "d"), bounds)
    is_new = f"(d.`{table.key[0]}` IS NULL OR {is_newer})" if has_stored else "true"
    return f"({delete['position']} IS NOT NULL AND {is_new})"


def _delete_fields(table: TableParts) -> dict[str, str]:
    return {field.name: f"s.{DELETE}.{field.name}" for field in kept_order(table)}


def compare_with(
    table: TableParts, fields: Mapping[str, str], operator: str, order: RecordOrder, bounds: ChangeBounds
) -> str:
    """Return the condition that compares a record, given by the fields of its order in SQL, with an order."""
    return f"({compare_orders(table, fields, operator, literal_fields(table, order), bounds)})"


def not_truncated(table: TableParts, bounds: ChangeBounds, side: str, name: str | None = None) -> str:
    """Return the condition that a row, or its kept column ``name``, is not older than the newest truncate.

    A column without a value has no position, and is older.
    """
    if bounds.truncate is None:
        return "true"
    return compare_with(table, order_fields(table, side, name), ">=", bounds.truncate, bounds)


def record_fields(table: TableParts, source: SourceId | None) -> dict[str, str]:
    """Return the fields of the order of a staged record of a source, in SQL, by name."""
    fields = {"source": quoted(source.text) if source else "CAST(NULL AS STRING)", "base": "CAST(NULL AS BIGINT)"}
    return order_fields(table, "") | fields


def literal_fields(table: TableParts, order: RecordOrder) -> dict[str, str]:
    """Return the fields of an order as SQL literals, by name."""
    types = {field.name: field.type for field in kept_order(table)}
    values = {name: None if value is None else str(value) for name, value in order}
    names = version_fields(table)
    values |= zip(names, json.loads(order.version), strict=True) if names.keys() - {"version"} and order.version else ()
    literals = {
        name: f"CAST({'NULL' if values.get(name) is None else text_literal(str(values[name]))} AS {type_})"
        for name, type_ in types.items()
    }
    return literals | ({} if order.time is None else {"time": f"timestamp_micros({order.time}L)"})
