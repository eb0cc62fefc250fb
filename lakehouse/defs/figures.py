"""The figures of a run in the metadata of its assets, and some groups of a rollup.

Figures that people follow over time are always present. Others are present only if they are not zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa
from deltalake.exceptions import DeltaError

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.defs.waiting import Waiting
from lakehouse.errors import LakehouseError, printable
from lakehouse.ingest.outcomes import Outcome, describe_omitted_fields, most_common_fields
from lakehouse.ingest.rejections import count_rejected
from lakehouse.ledger.accounting import NAMES_WITH_UNITS, shown_totals, sums
from lakehouse.ledger.commit_infos import left_out_by_stream, progress_by_source
from lakehouse.ledger.commit_values import Totals
from lakehouse.ledger.commits import OF_RECORDS, Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_rows
from lakehouse.ledger.positions import Plan, Range, source_words
from lakehouse.ledger.versions import count_rows
from lakehouse.operations.planned_changes import Change
from lakehouse.operations.rejections import sample_reasons
from lakehouse.settings import Settings

Figures = dict[str, Any]
_MAX_RANGES = 100  # partitions in the metadata of a run
_ALWAYS = ("read", "rejected", "inserted", "updated")
_MAX_GROUPS = 100_000  # a larger rollup takes too long to sort
_SHOWN_GROUPS, _MAX_TEXT = 12, 40  # groups, and characters of a value: Dagster stores them with the run


def without_zeros(counts: Mapping[str, int | None]) -> dict[str, int]:
    """The counts that are not zero."""
    return {name: count for name, count in counts.items() if count}


def entries_of_run(outcomes: Sequence[Outcome], ledger: Ledger, last_version: int) -> list[Entry]:
    """The commits that a run reports, oldest first: its own, and those of other writers after ``last_version``.

    These overtook the run, and nobody else reports them: the run reports their version.
    """
    own_entries = {outcome.entry.version: outcome.entry for outcome in outcomes}
    other_entries = {entry.version: entry for entry in ledger.entries if entry.version > last_version}
    return [entry for _, entry in sorted({**other_entries, **own_entries}.items())]


def count_records(outcomes: Sequence[Outcome], ledger: Ledger, entries: Sequence[Entry]) -> Figures:
    """Account for every record of the commits that a run reports, and for all batches so far."""
    return {**count_commits(entries, ledger), **_unmapped_fields(outcomes)}


def count_commits(entries: Sequence[Entry], ledger: Ledger) -> Figures:
    """Account for every record that the commits merged, separately for base rows, and for all batches so far.

    The offsets that the table left out on purpose are those of its whole history.
    """
    merge_entries = [entry for entry in entries if entry.commit.kind in OF_RECORDS]
    counts, base = sums(merge_entries), sums(entry for entry in entries if entry.commit.kind == "base")
    commit = ledger.newest.commit if ledger.newest else None
    rare = {
        **{unit: counts[name] for name, unit in NAMES_WITH_UNITS.items() if name not in (*_ALWAYS, "source_rows")},
        "gaps": sum(entry.commit.kind == "gap" for entry in entries),
        "offsets_left_out": sum(part.span for parts in left_out_by_stream(commit).values() for part in parts),
        "base_rows_inserted": base["inserted"],
        "base_rows_updated": base["updated"],
    }
    return {
        "batches": len(merge_entries),
        **{NAMES_WITH_UNITS[name]: counts[name] for name in _ALWAYS},
        **without_zeros(rare),
        "account": _account({"batches": len(merge_entries), **counts}, ledger.totals),
    }


def _account(counts: Mapping[str, int], totals: Totals) -> dg.TableMetadataValue:
    """What became of the records: in this run, and in all batches of the table."""
    rows = (
        (NAMES_WITH_UNITS.get(name, name), counts[name], total)
        for name, total in shown_totals(totals.model_dump()).items()
    )
    return _table({"figure": "string", "this_run": "int", "all_runs": "int"}, rows)


def count_rejections(settings: Settings, table: StreamTable, merged_ledger: Ledger, rejected: int) -> Figures:
    """How many records were rejected, and how many stored ones are unresolved or resolved.

    Only the first number if the stored rows cannot be read.
    """
    counts = count_rejected(settings, table, merged_ledger)
    figures: Figures = {"records_rejected": rejected}
    if counts is None:
        return figures
    return figures | {"records_unresolved": counts.open, **without_zeros({"records_resolved": counts.resolved})}


def rejected_reasons(settings: Settings, table: StreamTable, entries: Sequence[Entry]) -> Figures:
    """The reasons of the records that the commits rejected, with the beginning of one record each; empty if none is."""
    numbers = [entry.commit.number for entry in entries if entry.commit.rejected]
    reasons = sample_reasons(settings, table, numbers) if numbers else []
    types = {"reason": "string", "records": "int", "detail": "string", "value": "string"}
    rows = [(part.reason, part.count, part.detail, part.value) for part in reasons]
    return {"reasons": _table(types, rows)} if rows else {}


def _unmapped_fields(outcomes: Sequence[Outcome]) -> Figures:
    """The fields of the records that no column reads; empty if there are none."""
    rows = list(most_common_fields(outcomes).items())
    omitted_summary = describe_omitted_fields(outcomes)
    metadata: Figures = {"other_fields": _table({"field": "string", "records": "int"}, rows)} if rows else {}
    return {**metadata, "other_fields_unnamed": omitted_summary} if omitted_summary else metadata


def declaration_changes(changes: Sequence[Change]) -> Figures:
    """What a changed declaration changes in existing tables; empty if nothing."""
    rows = [(change.table, change.kind, change.detail) for change in changes]
    types = dict.fromkeys(("table", "change", "detail"), "string")
    return {"declaration_changes": _table(types, rows)} if rows else {}


def read_ranges(
    outcomes: Sequence[Outcome], waiting: Waiting, ledger: Ledger, entries: Sequence[Entry] = ()
) -> Figures:
    """The lag before and after a run, and the offsets read of each partition, also per topic if there are several.

    ``waiting`` was planned before the run; ``ledger`` was read after it. ``entries`` are what the run reports.
    """
    lags = {plan.stream: _lag_after(plan, ledger) for _, plan in waiting.topics}
    lags |= {outcome.plan.stream: outcome.lag_after for outcome in outcomes if outcome.plan}
    partition_ranges: dict[tuple[str, int], tuple[int, int]] = {}
    batches = [entry.commit for entry in entries if entry.commit.kind == "batch" and entry.commit.stream in lags]
    for stream, part in ((commit.stream or "", part) for commit in batches for part in commit.ranges):
        start, _ = partition_ranges.get((stream, part.partition), (part.start, part.end))
        partition_ranges[stream, part.partition] = (start, part.end)
    ranges: dict[str, list[Range]] = {name: [] for name in lags}
    for (name, partition), (start, end) in partition_ranges.items():
        ranges[name].append(Range(partition, start, end))
    return {"lag_before": waiting.span, "lag_after": sum(lags.values()), "offsets_read": topic_ranges_table(ranges)}


def _lag_after(plan: Plan, ledger: Ledger) -> int:
    """What a plan would still read after the commits of a ledger, which another writer may have made."""
    progress = progress_by_source(ledger.newest.commit if ledger.newest else None).get(plan.source, {})
    left = sum(max(0, part.end - max(part.start, progress.get(part.partition, 0))) for part in plan.ranges)
    return source_words(plan.source).count(left)


def topic_ranges_table(ranges: Mapping[str, Sequence[Range]]) -> dg.TableMetadataValue:
    """A table of ranges, in order, with their topics if there are several; of many, the largest ones."""
    pairs = [(name, part) for name, parts in ranges.items() for part in parts]
    largest_pairs = sorted(pairs, key=lambda pair: pair[1].span, reverse=True)[:_MAX_RANGES]
    types = {"topic": "string", **dict.fromkeys(("partition", "start", "end"), "int")}
    rows = [(name, part.partition, part.start, part.end) for name, part in sorted(largest_pairs)]
    if len(ranges) > 1:
        return _table(types, rows)
    return _table({name: types[name] for name in [*types][1:]}, [row[1:] for row in rows])


def _table(types: Mapping[str, str], rows: Iterable[Sequence[str | int]]) -> dg.TableMetadataValue:
    """A table of these columns, given by name and type."""
    schema = dg.TableSchema(columns=[dg.TableColumn(name, type_) for name, type_ in types.items()])
    return dg.MetadataValue.table([dg.TableRecord(dict(zip(types, row, strict=True))) for row in rows], schema=schema)


def newest_groups(settings: Settings, table: StreamTable, rollup: Rollup) -> Figures:
    """Some groups of a rollup, as a table of texts: the newest by their time, else the largest by the first measure.

    Read without a JVM. Empty if the rollup has no row, more groups than can be read quickly, or a table that cannot be
    read: no run fails because of it.
    """
    types = {column.name: column.type for column in table.stored_columns}
    time = next((name for name in rollup.by if types[name] in ("DATE", "TIMESTAMP")), None)
    names = [*rollup.by, *rollup.measures]
    order = [(time or next(iter(rollup.measures)), "descending"), *((name, "ascending") for name in rollup.by)]
    try:
        stored_table = open_rows(settings.table_uri(rollup.name))
        if stored_table is None or not 0 < count_rows(settings.table_uri(rollup.name)) <= _MAX_GROUPS:
            return {}
        rows = pa.table(stored_table.to_pyarrow_table(columns=names))
        newest = rows.sort_by(order).slice(0, _SHOWN_GROUPS).to_pylist()
    except (LakehouseError, DeltaError, pa.ArrowException, OSError, OverflowError, ValueError):
        return {}
    texts = [["" if row[name] is None else printable(str(row[name]))[:_MAX_TEXT] for name in names] for row in newest]
    return {"groups": _table(dict.fromkeys(names, "string"), texts)}
