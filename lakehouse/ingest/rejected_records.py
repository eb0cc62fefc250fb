"""Rejected records: kept with their bytes, their position and a reason, in a table of their own."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.ingest.unresolved_rejections import is_open, was_undone
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.commits import Commit, Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.positions import Plan, Range
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, from_source
from lakehouse.storage.row_order import POSITION, same_place
from lakehouse.storage.stored_table import StoredTable

_POSITION = TableColumn.struct("position", "Where the record stands.", POSITION)
_RECORD = (
    TableColumn("time", "TIMESTAMP", "When the broker got the record, UTC."),
    TableColumn("key", "BINARY", "The record's key, as it came."),
    TableColumn("value", "BINARY", "The record's value, as it came; NULL for a tombstone."),
    TableColumn("headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>", "The record's headers, as they came."),
    TableColumn("reason", "STRING", "Why it may not enter, one of a short list."),
    TableColumn("detail", "STRING", "What exactly was wrong."),
)
_DECISION = (
    TableColumn("number", "BIGINT", "Number of the batch that rejected it."),
    TableColumn("resolved_number", "BIGINT", "Number of the commit in which it passed; NULL while it is rejected."),
    TableColumn("resolved_table_id", "STRING", "Id of the merged table that holds it; NULL while it is rejected."),
)
_COLUMNS = (_POSITION, *_RECORD, *_DECISION)
_FAILS = f"s.{staged.REASON} IS NOT NULL"
# a broker that is back from an older copy gives an offset to another record; the detail alone tells a time that is NULL
_SAME = (
    f"{same_place('t.position', 's.position')} AND t.time IS NOT DISTINCT FROM s.{{of}}time"
    " AND CASE WHEN t.time IS NULL THEN t.detail END IS NOT DISTINCT FROM"
    " CASE WHEN s.{of}time IS NULL THEN s.{of}detail END"
)


def rejected_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the rejected records are stored: one row for each of them."""
    doc = f"Records of topic {table.topic} that may not enter {table.name}: one row for each."
    return Layout(
        table.rejected_name,
        settings.table_uri(table.rejected_name),
        doc,
        _COLUMNS,
        statistics=["position"],
        retention=table.retention,
        anchors=["position", "value"],
        sync=settings.sync,
    )


@dataclass(frozen=True)
class Decided:
    """Records as a commit decides them: held rows of positions in ``plan``, with ``reason`` NULL where one may enter.

    ``merged`` is the ledger of the merged table they are decided for.
    """

    held: DataFrame
    plan: Plan
    commit: Commit
    merged: Ledger


def store_rejected(rejected: StoredTable, decided: Decided, *, committed: bool = True) -> bool:
    """Store what was decided, for the positions of the held rows and no others; whether records wait to be marked.

    A record that was stored before is decided again: updated, or marked as resolved by the commit in which
    its record passes. What a commit resolved that was undone since, or that a merged table back from a backup does
    not have, is unresolved again, wherever it stands.
    Nothing is written where nothing changes: a second run writes nothing.

    A batch stores what it rejects before it commits: that lies at or beyond the progress until then. No commit marks
    a record as resolved before it has merged it (``committed``): another one may take its number, and the record
    would be in no table and on no list. Until then those that pass wait.
    """
    if not decided.commit.rejected and not count_rows(rejected.layout.uri):
        return False
    ledger = rejected.ledger()
    everywhere = bool(decided.merged.undone) or went_back(ledger.consumed, decided.merged)
    near = _near(decided, everywhere)
    stored = rejected.rows().alias("t").where(near)
    rows = _decided_rows(stored, decided, "full" if everywhere else "left", committed).localCheckpoint()
    ((changed, waiting),) = rows.agg(F.count_if("_changes"), F.count_if("_waits")).collect()
    if changed:
        seen = Consumed(table_id=decided.merged.table_id, version=decided.merged.version)
        said = {"rejected": changed, "consumed": seen}
        commit = ledger.next_commit("rejected", decided.commit.run).with_fields(**said)
        values = from_source([c.name for c in _COLUMNS])
        spec = MergeSpec(f"{_SAME.format(of='')} AND {near}", values, values)
        rejected.merge(rows.where("_changes").select("row.*"), spec, commit)
    return bool(waiting)


def _decided_rows(stored: DataFrame, decided: Decided, how: str, committed: bool) -> DataFrame:
    """Rows as they are to be stored, where that is not how they are, or where they wait to be marked."""
    asked_nobody = decided.commit.kind == "replay"  # why a schema cannot be used, only a registry tells
    now = decided.held.select(
        F.expr(f"struct({place_of(decided.plan)})").alias("position"), *(f"_{c.name}" for c in _RECORD)
    )
    same = _SAME.format(of="_")
    joined = now.alias("s").join(stored.alias("t"), F.expr(same), how)
    passes = f"({same} AND {is_open('t.', decided.merged)})"
    stays = f"s.{staged.REASON} = 'unknown_schema' AND t.position IS NOT NULL"
    told_anew = f"{_FAILS} AND NOT ({stays})" if asked_nobody else _FAILS
    record = {c.name: f"IF({told_anew}, s._{c.name}, t.{c.name})" for c in _RECORD}
    wanted = {"position": f"IF({told_anew}, s.position, t.position)", **record}
    wanted |= _decision(decided, passes if committed else "false")
    rows = f"struct({', '.join(f'{wanted[c.name]} AS {c.name}' for c in _COLUMNS)})"
    before = f"struct({', '.join(f't.{c.name}' for c in _COLUMNS)})"
    changes = f"({_FAILS} OR t.position IS NOT NULL) AND NOT {rows} <=> {before}"
    waits = "false" if committed else f"NOT {_FAILS} AND {passes}"
    told = joined.selectExpr(f"{rows} AS row", f"{changes} AS _changes", f"{waits} AS _waits")
    return told.where("_changes OR _waits")


def _decision(decided: Decided, passes: str) -> dict[str, str]:
    """Which commit rejected a record, and in which it passes.

    What is stored keeps the number of the batch that rejected it, unless another batch does.
    """
    number, batch, merged = f"{decided.commit.number}L", decided.commit.kind == "batch", decided.merged
    undone = was_undone("t.", merged)

    def resolved(here: str, before: str) -> str:
        return f"CASE WHEN {_FAILS} THEN NULL WHEN {passes} THEN {here} WHEN {undone} THEN NULL ELSE {before} END"

    return {
        "number": f"IF({_FAILS}, {number if batch else f'coalesce(t.number, {number})'}, t.number)",
        "resolved_number": resolved(number, "t.resolved_number"),
        "resolved_table_id": resolved(quoted(merged.table_id), "t.resolved_table_id"),
    }


def went_back(seen: Consumed | None, merged: Ledger) -> bool:
    """Whether the merged table is older than it was seen: as from a backup."""
    if seen is None or seen.table_id != merged.table_id or seen.version <= merged.version:
        return False
    now = open_table(merged.uri)  # another process may have committed since
    return now is not None and seen.version > now.version()


def _near(decided: Decided, everywhere: bool) -> str:
    """A condition on stored rows, in literals, that holds for every row that can change."""
    undone = was_undone("t.", decided.merged) if everywhere else "false"
    return f"({is_covered('t.position', decided.plan)} OR {undone})"


def place_of(plan: Plan) -> str:
    """Where a held record of a plan stands, as fields of a struct in SQL."""
    held = {"source": quoted(plan.source.text)} | {c.name: f"_{c.name}" for c in POSITION[1:]}
    return ", ".join(f"{value} AS {name}" for name, value in held.items())


def is_covered(position: str, plan: Plan) -> str:
    """A condition in literals that holds for the positions in the ranges of a plan."""
    inside = " OR ".join(_covers(position, part) for part in plan.ranges if part.span) or "false"
    return f"({position}.source = {quoted(plan.source.text)} AND ({inside}))"


def _covers(position: str, part: Range) -> str:
    at = f"{position}.position"
    return f"({position}.partition = {part.partition} AND {at} >= {part.start} AND {at} < {part.end})"
