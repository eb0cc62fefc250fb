"""A small picture of a rollup for its asset in Dagster: the first numeric measure over time, or of its largest groups.

Read without a JVM from the stored rollup. A picture has at most 20 kB, because Dagster stores it with the run.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from xml.sax.saxutils import escape

import dagster as dg
import duckdb

from lakehouse.declaration import Rollup, StreamTable
from lakehouse.errors import LakehouseError
from lakehouse.ledger.versions import count_rows
from lakehouse.query import query
from lakehouse.settings import Settings

PICTURE, DRAWN_AT = "picture", "picture_drawn_at"
_INTERVAL = 3600.0  # seconds between two pictures of an asset
_MAX_GROUPS = 100_000  # a larger rollup takes too long to read for a picture
_MAX_LINES, _MAX_BARS, _MAX_POINTS = 5, 12, 100
_WIDTH, _HEIGHT, _MARGIN, _LINE_HEIGHT = 640, 240, 60, 18  # pixels
_COLORS = ("#0b7a75", "#d1495b", "#edae49", "#30638e", "#7b5ea7")
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
Points = list[tuple[float, float]]


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
