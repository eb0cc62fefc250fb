"""Missing keys: rows whose key a compacted topic no longer has, since it removed their deletes before they were merged.

Compaction removes a record only once there is a newer one with its key, and that one only if it is a delete. So a row
whose record is not before the first one of the topic, and whose key has no record there, was deleted.
"""

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable, Tombstone
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.errors import DeclarationError, LakehouseError
from lakehouse.ingest.decode import decode_records
from lakehouse.ingest.deletes import settle_deletes, store_deletes
from lakehouse.ingest.gaps import plan_table
from lakehouse.ingest.kept_schemas import kept_schemas
from lakehouse.kafka import PATIENCE, read_records
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import Plan, Range, SourceState
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.merge_spec import MergeSpec, equal_keys
from lakehouse.storage.row_order import order_columns
from lakehouse.storage.stored_table import ExpectedRows
from lakehouse.storage.table_context import TableContext

_SHOWN_KEYS = 5
_RECORD_FIELDS = ("source", "partition", "position")


@dataclass(frozen=True)
class MissingKeys:
    """Rows whose key is missing from the topic: the key and the order (``_delete``) of each, and their number.

    ``ledger`` is that of the table when it was read.
    """

    rows: DataFrame
    count: int
    ledger: Ledger

    @property
    def first_keys(self) -> list[str]:
        """The first of the keys, in their order, as texts."""
        keys = self.rows.drop(staged.DELETE)
        return [" ".join(map(str, key)) for key in keys.orderBy(*keys.columns).limit(_SHOWN_KEYS).collect()]


def find_missing_keys(context: TableContext) -> MissingKeys:
    """Find the rows whose key is missing from the topic of the context; changes nothing.

    Reads the keys of all records of the topic. Rows of another source stay, base rows too, and so do rows whose record
    is before the first one of the topic: that one may have expired. Raises ``DataLossError`` for an open gap,
    ``DeclarationError`` if tombstones do not delete rows of the table, and ``LakehouseError`` if a key cannot be read.
    """
    table, ledger, source = context.table, context.ledger(), source_of(context.settings, context.table)
    require_tombstones(table)
    state = source.look(ledger, PATIENCE)
    plan_table(table, state, ledger, Bounds())
    plan = Plan(state.stream, state.source, tuple(Range(p, state.earliest[p], end) for p, end in state.end.items()))
    with source.failures(plan, f"lakehouse delete-missing {table.name}"):
        keys = _read_keys(context, read_records(context.spark, context.settings, plan))
        rows = context.merged.rows(ledger.version).where(f"{RECORD}.source = {quoted(state.source.text)}")
        rows = rows.join(keys, [*table.key], "left_anti").selectExpr(*_order_of_rows(table)).localCheckpoint()
    state_after = source.look(ledger, PATIENCE)  # what expired meanwhile is not missing
    plan_table(table, state_after, ledger, Bounds())
    rows = rows.where(has_position_in(state_after, staged.DELETE))
    return MissingKeys(rows, rows.count(), ledger)


def require_tombstones(table: StreamTable) -> None:
    """Raise ``DeclarationError`` if a key that its topic no longer has does not mean that its row was deleted."""
    if not (table.key and isinstance(table.apply_as_deletes, Tombstone)):
        raise DeclarationError(
            f"{table.name} does not declare apply_as_deletes=Tombstone(): that its topic no longer has a key does not"
            " mean that its row was deleted",
            where=f"table {table.name}",
            action="Nothing was deleted.",
        )


def _read_keys(context: TableContext, records: DataFrame) -> DataFrame:
    """Decode the keys of records, as if each had no value: what it says is not needed, and may be invalid."""
    table = replace(context.table, where=None, late=None, rejects=(), version=None)
    records = records.withColumn(staged.VALUE, F.lit(None).cast("binary"))
    decoded_keys = decode_records(records, table, kept_schemas(context.settings, table)).localCheckpoint()
    columns = (staged.PARTITION, staged.POSITION, staged.DETAIL)
    unreadable = decoded_keys.where(f"{staged.REASON} IS NOT NULL").select(*columns).orderBy(*columns).first()
    if unreadable is not None:
        raise LakehouseError(
            f"The key of a record cannot be read, so it is not known which keys are missing: {unreadable[2]}",
            where=f"topic {table.topic}, partition {unreadable[0]}, offset {unreadable[1]}",
            action="Nothing was deleted. Correct the declaration, or send a record without a value with this key, and"
            " run it again once the topic has removed it.",
        )
    return decoded_keys.select(*table.key).distinct()


def _order_of_rows(table: StreamTable) -> list[str]:
    version = [f"`{table.version_column}` AS version"] if table.version_column else []
    order = [f"{RECORD}.{field.name}" for field in order_columns(table)]
    return [*(f"`{name}`" for name in table.key), f"struct({', '.join([*order, *version])}) AS {staged.DELETE}"]


def has_position_in(state: SourceState, record: str) -> str:
    """Return the condition that a record, a struct of this name, has one of the positions that the source holds."""
    place, number = f"{record}.position", f"{record}.partition"
    ranges = ((p, earliest, state.end[p]) for p, earliest in state.earliest.items())
    parts = (f"({number} = {p} AND {place} >= {earliest} AND {place} < {end})" for p, earliest, end in ranges)
    return f"({' OR '.join(parts) or 'false'})"


def delete_missing(context: TableContext, missing_keys: MissingKeys) -> Entry:
    """Delete these rows in a commit of its own, and remember each as deleted by its own record.

    So no older record brings a row back, and a newer one does. Raises ``ConflictError`` if the table has changed since
    they were found. Nothing is deleted then.
    """
    table, ledger, rows = context.table, missing_keys.ledger, missing_keys.rows
    commit = ledger.next_commit("missing", context.run)
    deletes = settle_deletes(context, ledger)
    if deletes is not None:
        counted_version = store_deletes(table, deletes, rows, ExpectedRows(missing_keys.count), commit)
        commit = commit.with_fields(deletes_table=counted_version)
    is_same_record = " AND ".join(f"t.{RECORD}.{name} = s.{staged.DELETE}.{name}" for name in _RECORD_FIELDS)
    spec = MergeSpec(f"{equal_keys(table.key)} AND {is_same_record}", delete_if="true")
    return context.merged.merge(rows, spec, commit)
