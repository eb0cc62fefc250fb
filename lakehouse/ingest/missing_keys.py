"""Missing keys: rows whose key a compacted topic no longer has, since it removed their deletes before they were merged.

Of each key, a partition always keeps the newest record, unless that is a tombstone. So a row was deleted if its record
is not before the first one of its partition, and the partition has no record with its key.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.errors import ConflictError, DeclarationError, LakehouseError
from lakehouse.ingest.decode import decode_records
from lakehouse.ingest.deletes import as_stored_deletes, settle_deletes, store_deletes
from lakehouse.ingest.gaps import plan_table, shows_deletes
from lakehouse.ingest.rejected_records import has_position_in_ranges
from lakehouse.ingest.schema_resolution import kept_schemas
from lakehouse.kafka import PATIENCE, TimelessRecordError, read_records
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import Plan, Range, SourceState
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.merge_spec import MergeSpec, equal_keys
from lakehouse.storage.row_order import order_columns
from lakehouse.storage.stored_table import ExpectedRows
from lakehouse.storage.table_context import TableContext, whole_ledger

_SHOWN_KEYS, _SHOWN_CHARACTERS = 5, 50
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
        names = [name for name in self.rows.columns if name != staged.DELETE]
        texts = [f"substring(CAST(`{name}` AS STRING), 1, {_SHOWN_CHARACTERS})" for name in names]
        return [
            " ".join(map(str, key)) for key in self.rows.orderBy(*names).selectExpr(*texts).limit(_SHOWN_KEYS).collect()
        ]

    def among(self, shown_keys: "MissingKeys") -> "MissingKeys":
        """Return those of these rows that were shown, with the same record."""
        rows = self.rows.intersect(shown_keys.rows).localCheckpoint()
        return replace(self, rows=rows, count=rows.count())


def find_missing_keys(context: TableContext) -> MissingKeys:
    """Find the rows whose key is missing from the topic of the context; changes nothing.

    Reads the keys of all records of the topic. Rows of another source stay, base rows too, and so do rows whose record
    is before the first one of its partition, as that may have expired, and rows of records that the topic has lost at
    its end. Raises ``DataLossError`` for an open gap, ``DeclarationError`` if a missing key does not show a delete, and
    ``LakehouseError`` if a key cannot be read.
    """
    table, source = context.table, source_of(context.settings, context.table)
    require_tombstones(table)
    ledger = whole_ledger(context.settings, table)
    state = source.read_state(ledger, PATIENCE)
    plan_table(table, state, ledger, Bounds())
    plan = Plan(state.stream, state.source, tuple(Range(p, state.earliest[p], end) for p, end in state.end.items()))
    with source.failures(plan, f"lakehouse repair missing-keys {table.name}"), _explained(table):
        keys = _read_keys(context, read_records(context.spark, context.settings, plan))
        rows = context.merged.rows(ledger.version).where(f"{RECORD}.source = {quoted(state.source.text)}")
        rows = rows.selectExpr(*_order_of_rows(table)).withColumn(
            staged.PARTITION, F.expr(f"{staged.DELETE}.partition")
        )
        rows = rows.join(keys, keys.columns, "left_anti").drop(staged.PARTITION).localCheckpoint()
    state_after = source.read_state(ledger, PATIENCE)  # what expired meanwhile is not missing
    plan_table(table, state_after, ledger, Bounds())
    rows = rows.where(f"{has_position_in(state_after, staged.DELETE)} AND NOT {_is_given_up(ledger, state)}")
    return MissingKeys(rows, rows.count(), ledger)


def require_tombstones(table: StreamTable) -> None:
    """Raise ``DeclarationError`` if a key that its topic no longer has does not show that its row was deleted."""
    if not shows_deletes(table):
        raise DeclarationError(
            f"That the topic of {table.name} no longer has a key does not show that its row was deleted: only with"
            " deletes=Deletes(when=Tombstone()), without a version, and without a header that decides",
            where=f"table {table.name}",
            action="Nothing was deleted. A table with another name reads the topic from its beginning.",
        )


@contextmanager
def _explained(table: StreamTable) -> Iterator[None]:
    """Raise another error for a record that Spark cannot read: no record must be deleted for it."""
    try:
        yield
    except TimelessRecordError as error:
        raise LakehouseError(
            "The topic has a record whose time is out of range for a timestamp: it is not known which keys are missing",
            where=f"topic {table.topic}",
            action="Nothing was deleted. A table with another name reads the topic from its beginning.",
        ) from error


def _is_given_up(ledger: Ledger, state: SourceState) -> str:
    """Return the condition that a row is of a record that the topic has lost at its end, or of one in its place."""
    commits = (entry.commit for entry in ledger.entries if entry.commit.source == state.source)
    ranges = {part for commit in commits for part in commit.gap if part.span}
    return has_position_in_ranges(sorted(ranges), staged.DELETE)


def _read_keys(context: TableContext, records: DataFrame) -> DataFrame:
    """Decode the keys of records, as if each had no value: what it says is not needed, and may be invalid."""
    table = replace(context.table, where=None, late=None, rejects=())
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
    return decoded_keys.select(*table.key, staged.PARTITION).distinct()


def _order_of_rows(table: StreamTable) -> list[str]:
    order = [f"{RECORD}.{field.name}" for field in order_columns(table)]
    return [*(f"`{name}`" for name in table.key), f"struct({', '.join(order)}) AS {staged.DELETE}"]


def has_position_in(state: SourceState, record: str) -> str:
    """Return the condition that a record, a struct of this name, has one of the positions that the source holds."""
    return has_position_in_ranges([Range(p, earliest, state.end[p]) for p, earliest in state.earliest.items()], record)


def delete_missing(context: TableContext, missing_keys: MissingKeys) -> Entry:
    """Delete these rows in a commit of its own, and remember each as deleted by its own record.

    So no older record brings a row back, and a newer one does. Raises ``ConflictError`` if the table has changed since
    they were found. Nothing is deleted then.
    """
    table, ledger, rows = context.table, missing_keys.ledger, missing_keys.rows
    if context.ledger().version != ledger.version:  # before the deletes that count are settled by an old ledger
        message = f"{table.name} has changed since its keys were read"
        raise ConflictError(message, where=table.name, action="Nothing was deleted. Run it again.")
    commit = ledger.next_commit("missing", context.run)
    if table.delete_rule:
        deletes = settle_deletes(context, ledger)
        counted_version = store_deletes(
            deletes, as_stored_deletes(table, rows), ExpectedRows(missing_keys.count), commit
        )
        commit = commit.with_fields(deletes_table=counted_version)
    is_same_record = " AND ".join(f"t.{RECORD}.{name} = s.{staged.DELETE}.{name}" for name in _RECORD_FIELDS)
    spec = MergeSpec(f"{equal_keys(table.key)} AND {is_same_record}", delete_if="true")
    return context.merged.merge(rows, spec, commit)
