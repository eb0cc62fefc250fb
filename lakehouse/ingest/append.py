"""Records → a log table: each that may enter is a row of its own, exactly once.

A row is told from others by where its record stands and when the broker got it: a broker that was rolled back gives
the same positions to other records.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration.names import RECORD
from lakehouse.decoding import staged
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.rejected_records import Decided, is_covered, place_of
from lakehouse.ledger.commits import Entry
from lakehouse.storage.merge_spec import MergeSpec, from_source
from lakehouse.storage.row_order import IDENTITY_FIELDS, same_record
from lakehouse.storage.stored_table import Expected, StoredTable


def append_records(merged: StoredTable, decided: Decided, counts: Counts) -> Entry:
    """Append the records of a batch that may enter, in one commit; nothing of the table is read.

    Those that may be there already (of a replay or a redrive, and where a commit before read as far and does not
    count) are inserted by their positions instead: what is there is stale. Raises what ``commit_merge`` raises.
    """
    commit = decided.commit
    if not counts.rows:
        return merged.commit_nothing(commit)
    rows = _rows(decided, merged.layout.names)
    if commit.kind != "batch" or not _are_new(decided):
        return _insert(merged, rows, decided, counts)
    return merged.append(rows, commit, Expected(counts.rows, counts.text_from(commit.source)))


def _are_new(decided: Decided) -> bool:
    """Whether no commit, be it one that does not count, has read records of these ranges."""
    reached = decided.merged.reached.get(decided.plan.source.text, {})
    return all(part.start >= reached.get(part.partition, 0) for part in decided.plan.ranges if part.span)


def _rows(decided: Decided, names: Sequence[str]) -> DataFrame:
    """The records that may enter, as rows of the table."""
    record = f"struct({place_of(decided.plan)}, {staged.TIME} AS time)"
    rows = decided.held.where(f"{staged.REASON} IS NULL").withColumn(RECORD, F.expr(record))
    return rows.select(*(f"`{name}`" for name in names))


def _insert(merged: StoredTable, rows: DataFrame, decided: Decided, counts: Counts) -> Entry:
    """Insert the rows whose record is not there; the others are counted as stale, and no file is written for them.

    They are told before the MERGE, and it has a clause for rows that match though none does: Delta then counts its
    source twice, and commits nothing where the counts differ.
    """
    identity = ", ".join(f"{RECORD}.{name}" for name in IDENTITY_FIELDS)
    there = (
        merged.rows().where(is_covered(RECORD, decided.plan)).select(F.expr(f"struct({identity}) AS _there")).distinct()
    )
    marked = rows.join(there, F.expr(same_record(RECORD, "_there")), "left")
    marked = marked.withColumn(staged.STALE, F.expr("_there IS NOT NULL")).drop("_there").localCheckpoint()
    new = f"NOT s.{staged.STALE}"
    spec = MergeSpec(
        f"{same_record(f's.{RECORD}', f't.{RECORD}')} AND {is_covered(f't.{RECORD}', decided.plan)} AND {new}",
        from_source([RECORD]),
        from_source(merged.layout.names),
        insert_if=new,
    )
    return merged.merge(marked.hint(counts.join), spec, decided.commit)
