"""Corrections: records are read again by the declaration of now, and what is stored of them follows.

A stored row, and a stored value of a kept column, comes from one record. If that record is read again, the newest row
of its key replaces it where values differ, whether it is newer or not. If no record that was read gives its key a row
any more, the row is withdrawn: it is removed. Rows of other records are compared as in every batch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.snapshot import meaning_of
from lakehouse.declaration.sql import quoted
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding import staged
from lakehouse.decoding.staged import CORRECTED, READ_AGAIN, WITHDRAWN
from lakehouse.ledger.commit_infos import progress_by_source
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.storage.merge_spec import struct_of
from lakehouse.storage.row_order import order_fields, same_record, stored_order_fields
from lakehouse.storage.table_context import TableContext

_PLACE = (staged.PARTITION, staged.POSITION, staged.TIME)
_IS_READ = "_is_read"


def outdated_ranges(ledger: Ledger, meaning: str) -> dict[str, tuple[Range, ...]]:
    """Return by source the positions whose records were decoded by another meaning than this one."""
    commit = ledger.last_commit
    if commit is None or commit.meaning in ("", meaning):
        return commit.outdated if commit else {}
    return {
        source.text: tuple(Range(partition, 0, end) for partition, end in sorted(positions.items()) if end)
        for source, positions in progress_by_source(commit).items()
    }


def note_meaning(commit: Commit, ledger: Ledger, table: StreamTable) -> Commit:
    """Return the commit of a batch with the meaning of its values, and what was decoded by another one."""
    meaning = meaning_of(table)
    return commit.with_fields(meaning=meaning, outdated=outdated_ranges(ledger, meaning))


def subtract_ranges(ranges: Iterable[Range], read_ranges: Sequence[Range]) -> Iterator[Range]:
    """Yield what is left of ranges without others, as non-empty ranges."""
    for part in ranges:
        start = part.start
        for read in sorted(r for r in read_ranges if r.partition == part.partition):
            if start < min(read.start, part.end):
                yield Range(part.partition, start, min(read.start, part.end))
            start = max(start, read.end)
        if start < part.end:
            yield Range(part.partition, start, part.end)


def settle_outdated(context: TableContext, read_plans: Sequence[Plan]) -> None:
    """Record that records of these plans are not outdated any more."""
    ledger = context.ledger()
    outdated = dict(ledger.last_commit.outdated) if ledger.last_commit else {}
    for plan in read_plans:
        source = plan.source.text
        outdated[source] = tuple(subtract_ranges(outdated.get(source, ()), plan.ranges))
    outdated = {source: ranges for source, ranges in outdated.items() if ranges}
    if ledger.last_commit and outdated != ledger.last_commit.outdated:
        commit = ledger.next_commit("correction", context.run).with_fields(ranges=(), outdated=outdated)
        context.merged.commit_nothing(commit)


@dataclass(frozen=True)
class Reading:
    """The staged records of a batch that corrects stored rows, with any verdict; all are of one source.

    What is stored of a record whose schema is not to be had any more stays: the record may be what it was.
    """

    table: TableParts
    records: DataFrame
    source: SourceId

    def mark(self, stored_rows: DataFrame) -> DataFrame:
        """Add whether the record of each stored row (``_again``), and of each of its kept values, is read again."""
        marked_rows = self._mark(stored_rows, order_fields(self.table, "t"), READ_AGAIN)
        for name in self.table.keep:
            marked_rows = self._mark(marked_rows, stored_order_fields(self.table, name), f"{READ_AGAIN}_{name}")
        return marked_rows

    def _mark(self, stored_rows: DataFrame, fields: dict[str, str], flag: str) -> DataFrame:
        joined_rows = stored_rows.alias("t").join(self._places.alias("r"), F.expr(self._is_record(fields)), "left")
        return joined_rows.selectExpr("t.*", f"r.{_IS_READ} IS NOT NULL AS `{flag}`")

    @property
    def _places(self) -> DataFrame:
        is_known = f"coalesce({staged.REASON}, '') NOT IN ('unknown_schema', 'unusable_schema')"
        return self.records.where(is_known).select(*_PLACE).distinct().withColumn(_IS_READ, F.lit(True))

    def _is_record(self, fields: dict[str, str]) -> str:
        """Return the condition that a record (``r``) is the one of a stored order, given by its fields in SQL."""
        pairs = ((fields[name.removeprefix("_")], f"r.{name}") for name in _PLACE)
        is_same = " AND ".join(f"{field} <=> {place}" for field, place in pairs)
        return f"{fields['source']} = {quoted(self.source.text)} AND {is_same}"

    @property
    def flags(self) -> list[str]:
        """The names of the flags that ``mark`` adds."""
        return [READ_AGAIN, *(f"{READ_AGAIN}_{name}" for name in self.table.keep)]

    def with_withdrawn(self, newest_rows: DataFrame, marked_rows: DataFrame) -> DataFrame:
        """Add a row without a record for each key of marked rows that no valid record has (``_withdrawn``)."""
        key = list(self.table.key)
        is_marked = " OR ".join(f"`{flag}`" for flag in self.flags)
        keys = marked_rows.where(is_marked).select(*key).join(newest_rows.select(*key), key, "left_anti")
        withdrawn_rows = keys.withColumn(WITHDRAWN, F.lit(True))
        if self.table.delete_rule:
            withdrawn_rows = withdrawn_rows.withColumn(staged.DELETED, F.lit(False))
        rows = newest_rows.withColumn(WITHDRAWN, F.lit(False))
        return rows.unionByName(withdrawn_rows, allowMissingColumns=True)

    def former_deletes(self, deletes: DataFrame) -> DataFrame:
        """Return the stored deletes whose record is read again and deletes their key no longer."""
        key = list(self.table.key)
        marked_deletes = self._mark(deletes, order_fields(self.table, "t"), READ_AGAIN).where(READ_AGAIN)
        new_deletes = self.records.where(f"{staged.REASON} IS NULL AND {staged.DELETED}").select(*key, *_PLACE)
        is_same_key = " AND ".join(f"t.`{name}` = r.`{name}`" for name in key)
        is_still = f"{is_same_key} AND {self._is_record(order_fields(self.table, 't'))}"
        return marked_deletes.drop(READ_AGAIN).alias("t").join(new_deletes.alias("r"), F.expr(is_still), "left_anti")


def correct_log(reading: Reading, rows: DataFrame, stored_rows: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """Compare the valid records of a log table, as its rows, with what is stored of the records that are read again.

    Returns the rows, each with whether it is unchanged (``_stale``), and the stored rows that are withdrawn.
    ``stored_rows`` have at least those of the records, and ``types`` are those of the columns.
    """
    read_rows = reading.mark(stored_rows).where(READ_AGAIN).drop(READ_AGAIN)
    is_same = same_record(reading.table, f"s.{RECORD}", f"t.{RECORD}")
    values = {name: type_ for name, type_ in types.items() if name != RECORD}
    is_unchanged = f"{struct_of('s', values)} <=> {struct_of('t', values)}"
    has_stored = f"t.{RECORD} IS NOT NULL"
    joined_rows = rows.alias("s").join(read_rows.alias("t"), F.expr(is_same), "left")
    compared_rows = joined_rows.selectExpr(
        *(f"s.`{name}`" for name in types),
        f"({has_stored} AND {is_unchanged}) AS {staged.STALE}",
        f"({has_stored} AND NOT {is_unchanged}) AS {CORRECTED}",
        f"false AS {WITHDRAWN}",
    )
    gone_rows = read_rows.alias("t").join(rows.alias("s"), F.expr(is_same), "left_anti")
    names = [f"t.`{name}`" for name in types]
    flags = (f"false AS {staged.STALE}", f"true AS {CORRECTED}", f"true AS {WITHDRAWN}")
    return compared_rows.unionByName(gone_rows.selectExpr(*names, *flags))
