"""Parameters of a request as conditions: ``column=value``, ``column.from=value`` and ``column.to=value``."""

import re
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal, localcontext
from typing import Any

from lakehouse.ledger.versions import parse_time
from lakehouse.query.connections import quoted_name
from lakehouse.serve.problems import wrong_parameter
from lakehouse.serve.snapshots import Snapshot
from lakehouse.serve.statements import DECIMAL, Grouping, Statement

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
FLOATS = ("FLOAT", "DOUBLE")
TIMES = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "DATE")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,38}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,38}(\.[0-9]{0,38})?|\.[0-9]{1,38})")
_OPERATORS = {"from": ">=", "to": "<"}
_BOOLEANS = {"true": True, "false": False}


def is_numeric(type_: str) -> bool:
    """Whether values of a type of DuckDB have an average."""
    return type_ in (*INTEGERS, *FLOATS) or DECIMAL.fullmatch(type_) is not None


def read_condition(snapshot: Snapshot, parameters: Iterable[tuple[str, str]], options: Container[str]) -> Statement:
    """Return the condition of the parameters that are not options; each of them must be met.

    A column with several values may have any of them. NULL meets no condition.
    """
    conditions, values = [], []
    texts_by_name: dict[str, list[str]] = {}
    for name, text in parameters:
        if name not in options:
            texts_by_name.setdefault(name, []).append(text)
    for name, texts in texts_by_name.items():
        column, _, bound = ("", "", "") if name in snapshot.columns else name.rpartition(".")
        operator = _OPERATORS.get(bound, "=")
        if bound == "is" or operator != "=":
            name_of_column = snapshot.column(column, name)
        else:
            name_of_column = snapshot.column(name, name)
        type_ = snapshot.columns[name_of_column]
        if operator != "=" and type_ not in TIMES and not is_numeric(type_):
            raise wrong_parameter(name, f"Column {name_of_column} has neither times nor numbers", "Remove the bound.")
        values += [_parse(name, text, type_) for text in texts]
        alternatives = [f"{quoted_name(name_of_column)} {operator} ?"] * len(texts)
        conditions.append(f"({(' AND ' if operator != '=' else ' OR ').join(alternatives)})")
    return Statement(" AND ".join(conditions) or "true", values)


def read_order(snapshot: Snapshot, texts: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the columns to order by, and whether the greatest value comes first.

    The other columns follow, so that only equal rows have no order between them.
    """
    order: dict[str, bool] = {}
    for text in texts:
        is_falling = text.startswith("-") and text not in snapshot.columns
        order.setdefault(snapshot.column(text[1:] if is_falling else text, "order"), is_falling)
    return list({**order, **{name: False for name in snapshot.columns if name not in order}}.items())


def require_numeric(snapshot: Snapshot, column: str) -> None:
    """Refuse to aggregate a column that does not exist, or has no numbers."""
    type_ = snapshot.columns[snapshot.column(column, "column")]
    if not is_numeric(type_):
        numeric_columns = [name for name, other_type in snapshot.columns.items() if is_numeric(other_type)]
        action = f"Numeric columns: {', '.join(numeric_columns) or 'none'}."
        raise wrong_parameter("column", f"Column {column} has the type {type_}, which has no average", action)


def choose_grouping(snapshot: Snapshot, columns: Sequence[str], period: str | None, time: str | None) -> Grouping:
    """Return the groups of an aggregate; the time of the period is the only one of the table if none is named."""
    names = snapshot.column_of(columns, "by")
    times = [name for name, type_ in snapshot.columns.items() if type_ in TIMES]
    if time is None and period is not None and len(times) == 1:
        time = times[0]
    if (period is None) != (time is None):
        missing_option = "time" if time is None else "period"
        action = f"Columns with times: {', '.join(times) or 'none'}."
        raise wrong_parameter(missing_option, f"The period of groups needs {missing_option} too", action)
    if time is not None and snapshot.column(time, "time") not in times:
        action = f"Columns with times: {', '.join(times) or 'none'}."
        raise wrong_parameter(
            "time", f"Column {time} has the type {snapshot.columns[time]}, which is not a time", action
        )
    return Grouping(names, period, time)


def _parse(name: str, text: str, type_: str) -> Any:
    """Return the value of a text, for a column of this type."""
    parse = _parser_of(type_)
    if parse is None:
        raise wrong_parameter(name, f"Columns of type {type_} have no filter", "Remove the parameter.")
    try:
        return parse(text)
    except (ValueError, KeyError) as error:
        hint = f": {error}" if type_ in TIMES and isinstance(error, ValueError) else ""
        action = f"Write {_EXAMPLES.get(type_, 'a number that the column can have')}."
        raise wrong_parameter(name, f"{text!r} is not a value of type {type_}{hint}", action) from None


def _parser_of(type_: str) -> Callable[[str], Any] | None:
    decimal_match = DECIMAL.fullmatch(type_)
    if decimal_match:
        return lambda text: _decimal(text, int(decimal_match[1]), int(decimal_match[2]))
    if type_ in INTEGERS:
        return _whole_number
    return _PARSERS.get(type_)


def _whole_number(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return the number with the places of the column; a number that no row can have is refused."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    with localcontext(prec=100):
        value = Decimal(text)
        placed_value = value.quantize(Decimal(1).scaleb(-scale))
    if placed_value != value or abs(value) >= Decimal(10) ** (precision - scale):
        raise ValueError(text)
    return placed_value


def _time_without_zone(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is not None:
        raise ValueError("the column has times without a zone")
    return time


_PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(FLOATS, float),
    "BOOLEAN": lambda text: _BOOLEANS[text],
    "VARCHAR": str,
    "TIMESTAMP WITH TIME ZONE": parse_time,
    "TIMESTAMP": _time_without_zone,
    "DATE": date.fromisoformat,
}
_EXAMPLES = {
    "BOOLEAN": "true or false",
    "TIMESTAMP WITH TIME ZONE": "a time such as 2026-11-01T00:00:00Z; in an address, + is written %2B",
    "TIMESTAMP": "a time such as 2026-11-01T00:00:00",
    "DATE": "a day such as 2026-11-01",
}
