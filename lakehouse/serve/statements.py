"""SQL of the answers. Names are those of columns of the table, in quotes; values are parameters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.ledger.versions import TableVersion
from lakehouse.query.connections import quoted_name, scan_sql

PERIODS = ("hour", "day", "month", "year")
DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_EXACT_DIGITS = 28  # the sum of ten billion such numbers has 38


@dataclass(frozen=True)
class Statement:
    """A statement with a value for each of its question marks."""

    sql: str
    values: Sequence[Any] = ()


@dataclass(frozen=True)
class Part:
    """Which rows of a result are read: ``count`` after the first ``skip``, and one more to know if there are more."""

    count: int
    skip: int


@dataclass(frozen=True)
class Grouping:
    """The groups of an aggregate: columns with equal values, and the period of a time in UTC."""

    columns: Sequence[str]
    period: str | None = None
    time: str | None = None

    def name_values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row of ``aggregate_rows`` with the names of the columns."""
        values = {name: row[f"g{index}"] for index, name in enumerate(self.columns)}
        period = row[f"g{len(self.columns)}"] if self.period else None
        figures = {name: row[name] for name in ("rows", "count", "minimum", "maximum", "average")}
        return {"group": values, "period": period, **figures}


def count_rows(version: TableVersion) -> Statement:
    """Count the rows of a version."""
    return Statement(f"SELECT count(*) AS rows FROM ({scan_sql(version)})")


def select_rows(
    version: TableVersion, columns: Sequence[str], condition: Statement, order: Sequence[tuple[str, bool]], part: Part
) -> Statement:
    """Select rows that meet a condition; ``order`` has columns, and whether the greatest value comes first."""
    names = ", ".join(map(quoted_name, columns))
    order_sql = ", ".join(
        f"{quoted_name(name)} {'DESC' if is_falling else 'ASC'} NULLS LAST" for name, is_falling in order
    )
    sql = f"SELECT {names} FROM ({scan_sql(version)}) WHERE {condition.sql} ORDER BY {order_sql} LIMIT ? OFFSET ?"
    return Statement(sql, [*condition.values, part.count + 1, part.skip])


def aggregate_rows(
    version: TableVersion, column: tuple[str, str], grouping: Grouping, condition: Statement, part: Part
) -> Statement:
    """Aggregate a numeric column of the rows that meet a condition; the columns of the result are g0, g1, ... and more.

    ``column`` is its name and its type.

    Without groups, there is one row, also if no row meets the condition. Groups are named by their place: a column of
    the table may be named g0 too.
    """
    groups = [quoted_name(name) for name in grouping.columns]
    if grouping.period and grouping.time:
        groups.append(f"date_trunc('{PERIODS[PERIODS.index(grouping.period)]}', {quoted_name(grouping.time)})")
    names = [f"g{index}" for index in range(len(groups))]
    group_sql = "".join(f"{group} AS {alias}, " for group, alias in zip(groups, names, strict=True))
    name, type_ = column
    value = quoted_name(name)
    figures = (
        f"count(*) AS rows, count({value}) AS count, min({value}) AS minimum, max({value}) AS maximum,"
        f" avg({_summed(value, type_)}) AS average"
    )
    places = [str(place) for place, _ in enumerate(groups, 1)]
    by_groups = f" GROUP BY {', '.join(places)} ORDER BY {', '.join(f'{place} NULLS LAST' for place in places)}"
    sql = f"SELECT {group_sql}{figures} FROM ({scan_sql(version)}) WHERE {condition.sql}{by_groups if groups else ''}"
    return Statement(f"{sql} LIMIT ? OFFSET ?", [*condition.values, part.count + 1, part.skip])


def _summed(value: str, type_: str) -> str:
    """Return what is added up for an average: a long decimal as a double, because the sum has at most 38 digits."""
    decimal_match = DECIMAL.fullmatch(type_)
    is_long = decimal_match is not None and int(decimal_match[1]) > _EXACT_DIGITS
    return f"CAST({value} AS DOUBLE)" if is_long else value
