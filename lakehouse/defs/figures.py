"""The figures of a run in the metadata of its assets, and a small picture of a rollup.

Figures that people follow over time are always present. Others are present only if they are not zero.

A picture is read without a JVM from the stored rollup. It has at most 20 kB, because Dagster stores it with the run.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape

import dagster as dg
import duckdb

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.defs.waiting import Waiting
from lakehouse.errors import LakehouseError
from lakehouse.ingest.outcomes import Outcome, describe_omitted_fields, most_common_fields
from lakehouse.ingest.rejections import count_rejected
from lakehouse.ledger.accounting import NAMES_WITH_UNITS, shown_totals, sums
from lakehouse.ledger.commit_infos import left_out_by_stream, progress_by_source
from lakehouse.ledger.commit_values import Totals
from lakehouse.ledger.commits import OF_RECORDS, Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Range, source_words
from lakehouse.ledger.versions import count_rows
from lakehouse.operations.planned_changes import Change
from lakehouse.operations.rejections import sample_reasons
from lakehouse.query import query
from lakehouse.settings import Settings

Figures = dict[str, Any]
_MAX_RANGES = 100  # partitions in the metadata of a run
_ALWAYS = ("read", "rejected", "inserted", "updated")
PICTURE, DRAWN_AT = "picture", "picture_drawn_at"
_INTERVAL = 3600.0  # seconds between two pictures of an asset
_MAX_GROUPS = 100_000  # a larger rollup takes too long to read for a picture
_MAX_LINES, _MAX_BARS, _MAX_POINTS = 5, 12, 100
_WIDTH, _HEIGHT, _MARGIN, _LINE_HEIGHT = 640, 240, 60, 18  # pixels
_COLORS = ("#0b7a75", "#d1495b", "#edae49", "#30638e", "#7b5ea7")
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
Points = list[tuple[float, float]]


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


def picture(
    settings: Settings, table: StreamTable, rollup: Rollup, last: dg.AssetMaterialization | None, now: float
) -> dict[str, dg.MetadataValue]:
    """Metadata with a picture, if the newest one was drawn an hour ago; otherwise only when that was.

    ``last`` is the newest materialization of the rollup, ``now`` in seconds since 1970. Empty if the rollup has no
    numeric measure, no row, more groups than can be read quickly, or a table that DuckDB cannot read: no run fails
    because of its picture.
    """
    drawn = last.metadata.get(DRAWN_AT) if last else None
    if isinstance(drawn, dg.TimestampMetadataValue) and 0 <= now - drawn.value < _INTERVAL:
        return {DRAWN_AT: drawn}
    try:
        svg = draw(settings, table, rollup)
    except (LakehouseError, duckdb.Error):
        svg = None
    if svg is None:
        return {}
    data = base64.b64encode(svg.encode()).decode()
    text = dg.MetadataValue.md(f"![{rollup.name}](data:image/svg+xml;base64,{data})")
    return {PICTURE: text, DRAWN_AT: dg.MetadataValue.timestamp(now)}


def draw(settings: Settings, table: StreamTable, rollup: Rollup) -> str | None:
    """Draw the rollup as SVG; ``None`` if there is nothing to draw."""
    measure = next((name for name, m in rollup.measures.items() if m.type.split("(")[0] in _NUMBERS), None)
    groups = count_rows(settings.table_uri(rollup.name))
    if measure is None or not 0 < groups <= _MAX_GROUPS:
        return None
    types = {column.name: column.type for column in table.stored_columns}
    time = next((name for name in rollup.by if types[name] in ("DATE", "TIMESTAMP")), None)
    if time is None:
        body = _bars(_read_largest(settings, rollup, measure))
    else:
        body = _lines(_read_lines(settings, rollup, measure, time))
    title = f'<text x="8" y="16" font-weight="bold">{escape(measure)} of {escape(rollup.name)}</text>'
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "".join([head, f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>', title, *body, "</svg>"])


def _read_lines(settings: Settings, rollup: Rollup, measure: str, time: str) -> dict[str, Points]:
    """The measure over time for the groups with the most points."""
    sql = (
        f"WITH _points AS (SELECT {_label(name for name in rollup.by if name != time)} AS _label,"
        f' epoch("{time}") AS _moment, CAST("{measure}" AS DOUBLE) AS _amount FROM "{rollup.name}"),'
        " _drawn AS (SELECT * FROM _points WHERE _moment IS NOT NULL AND isfinite(_amount)),"
        f" _longest AS (SELECT _label FROM _drawn GROUP BY _label ORDER BY count(*) DESC, _label LIMIT {_MAX_LINES})"
        " SELECT _label, _moment, _amount FROM _drawn JOIN _longest USING (_label) ORDER BY _label, _moment"
    )
    rows = query(settings, sql, [rollup.name]).rows
    lines = {label: [(at, value) for _, at, value in points] for label, points in groupby(rows, lambda row: row[0])}
    return {label: _thinned(points) for label, points in lines.items()}


def _thinned(points: Points) -> Points:
    """Keep at most the drawn number of points, always with the newest one."""
    step = -(-len(points) // _MAX_POINTS)
    return points[::-step][::-1]


def _read_largest(settings: Settings, rollup: Rollup, measure: str) -> Sequence[tuple[str, float]]:
    """The groups with the greatest values of the measure."""
    sql = (
        f'SELECT {_label(rollup.by)} AS _label, CAST("{measure}" AS DOUBLE) AS _amount FROM "{rollup.name}"'
        f" WHERE isfinite(_amount) ORDER BY _amount DESC, _label LIMIT {_MAX_BARS}"
    )
    return [(label, amount) for label, amount in query(settings, sql, [rollup.name]).rows]


def _label(names: Iterable[str]) -> str:
    """SQL for the name of a group: the values of these columns."""
    parts = ", ".join(f"coalesce(CAST(\"{name}\" AS VARCHAR), 'NULL')" for name in names)
    return f"regexp_replace(left(concat_ws(', ', {parts or chr(39) * 2}), 40), '[[:cntrl:]]', '?', 'g')"


def _lines(lines: Mapping[str, Points]) -> Iterable[str]:
    times = [at for points in lines.values() for at, _ in points]
    values = [value for points in lines.values() for _, value in points]
    if not values:
        return
    bottom = _HEIGHT - 24 - _LINE_HEIGHT
    low, high = min(0.0, *values), max(0.0, *values)
    yield f'<text x="8" y="40">{high:,.6g}</text><text x="8" y="{bottom}">{low:,.6g}</text>'
    for index, (label, points) in enumerate(lines.items()):
        color = _COLORS[index % len(_COLORS)]
        drawn = [
            (_scale(at, min(times), max(times), _MARGIN, _WIDTH - 12), _scale(value, low, high, bottom, 32))
            for at, value in points
        ]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in drawn)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        yield f'<circle cx="{drawn[-1][0]:.0f}" cy="{drawn[-1][1]:.0f}" r="3" fill="{color}"/>'
        left = 8 + index * (_WIDTH - 16) // len(lines)
        yield f'<text x="{left}" y="{_HEIGHT - 8}" fill="{color}" font-size="10">{escape(label)}</text>'


def _bars(values: Sequence[tuple[str, float]]) -> Iterable[str]:
    longest = max((abs(value) for _, value in values), default=0.0) or 1.0
    for index, (label, value) in enumerate(values):
        top, length = 28 + index * _LINE_HEIGHT, 280 * abs(value) / longest
        yield f'<text x="8" y="{top + 12}">{escape(label)}</text>'
        yield f'<rect x="250" y="{top}" width="{length:.0f}" height="14" fill="{_COLORS[0]}"/>'
        yield f'<text x="{258 + length:.0f}" y="{top + 12}">{value:,.6g}</text>'


def _scale(value: float, low: float, high: float, start: float, end: float) -> float:
    """Map ``low`` to ``start`` and ``high`` to ``end``."""
    return start + (end - start) * ((value - low) / (high - low) if high > low else 0.5)
