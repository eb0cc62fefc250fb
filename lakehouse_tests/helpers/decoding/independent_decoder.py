"""A small, slow decoder of JSON records: it says what is right without any code of the package but its declarations.

It knows scalar columns, paths, former names, null values, defaults, bounds, conditions, deletes and exploded rows.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from lakehouse.declaration import Column, FieldIs, ParentField, StreamTable

Row = dict[str, Any]
_LIMITS = {"INT": 2**31, "BIGINT": 2**63}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_NOTHING = object()


class Refusal(Exception):  # noqa: N818 - a verdict
    """The reason for which a record or a row is rejected, or has no row."""


def decode_record(value: bytes | None, table: StreamTable) -> list[Row | str]:
    """The rows of a record, or the reason of each that is rejected; a delete is a row with the mark ``DELETES``."""
    try:
        record = _parse(value)
        if not all(_meets(record, condition) for condition in table.conditions):
            return ["filtered"]
        if table.rows_path is None:
            return [_row_of(record, record, table)]
        (path,) = table.rows_path
        elements = record.get(path)
        if elements is not None and not isinstance(elements, list):
            raise Refusal("wrong_type")
        if not elements:
            return [_without_rows(record, path, table)]
    except Refusal as refusal:
        return [str(refusal)]
    return [_row_or_reason(element, record, table) for element in elements]


def _parse(value: bytes | None) -> Row:
    if value is None:
        raise Refusal("tombstone")
    try:
        record = json.loads(
            value.decode(),
            parse_float=Decimal,
            parse_int=Decimal,
            parse_constant=lambda _: _refuse("not_finite"),
            object_pairs_hook=_unique,
        )
    except UnicodeDecodeError:
        _refuse("invalid_utf8")
    except json.JSONDecodeError:
        _refuse("invalid_json")
    if not isinstance(record, dict):
        _refuse("not_an_object")
    return record


def _refuse(reason: str) -> Any:
    raise Refusal(reason)


def _unique(pairs: list[tuple[str, Any]]) -> Row:
    if len({name for name, _ in pairs}) < len(pairs):
        _refuse("duplicate_name")
    return dict(pairs)


def _at(outer: Any, path: tuple[str, ...]) -> Any:
    """The value at a path; ``_NOTHING`` if it is missing."""
    for name in path:
        if outer is None:
            return None
        if not isinstance(outer, dict):
            _refuse("wrong_type")
        outer = outer.get(name, _NOTHING)
        if outer is _NOTHING:
            return _NOTHING
    return outer


def _meets(outer: Any, condition: Any) -> bool:
    raw = _at(outer, condition.path)
    raw = None if raw is _NOTHING else raw
    if isinstance(raw, dict | list):
        _refuse("wrong_type")
    return any(
        (isinstance(raw, bool) == isinstance(accepted, bool))
        and isinstance(raw, str) == isinstance(accepted, str)
        and raw == accepted
        for accepted in condition.values
    )


def _without_rows(record: Row, path: str, table: StreamTable) -> str:
    if table.deletes.when and record.get(path) is None:
        return "null_field" if path in record else "missing_field"
    return "empty"


def _row_or_reason(element: Any, record: Row, table: StreamTable) -> Row | str:
    try:
        if not isinstance(element, dict):
            _refuse("not_an_object")
        return _row_of(element, record, table)
    except Refusal as refusal:
        return str(refusal)


def _row_of(element: Row, record: Row, table: StreamTable) -> Row:
    deletes = table.deletes.when
    if isinstance(deletes, FieldIs):
        is_of_parent = isinstance(deletes.source, ParentField)
        if _meets(record if is_of_parent else element, deletes):
            key = [column for column in table.columns if column.name in table.key]
            return {"DELETES": True} | _values(key, element, record, is_required=True)
    return _values(table.columns, element, record)


def _values(columns: Any, element: Row, record: Row, *, is_required: bool = False) -> Row:
    """The values of columns; first those of the record around rows, since they decide about all of its rows."""
    ordered_columns = sorted(columns, key=lambda column: not isinstance(column.source, ParentField))
    return {column.name: _value(column, element, record, is_required=is_required) for column in ordered_columns}


def _value(column: Column, element: Row, record: Row, *, is_required: bool) -> Any:
    source: Any = column.source or column.name
    outer, path = (record, source.path) if isinstance(source, ParentField) else (element, source)
    raw = _at(outer, (path,) if isinstance(path, str) else tuple(path))
    if raw is _NOTHING and column.formerly is not None:
        raw = _at(element, (column.formerly,) if isinstance(column.formerly, str) else tuple(column.formerly))
    is_missing = raw is _NOTHING
    raw = None if is_missing or _means_null(raw, column) else raw
    if raw is None and (column.required or is_required):
        _refuse("missing_field" if is_missing else "null_field")
    if raw is None and column.default is not None:
        return _convert(Decimal(str(column.default)) if _is_number(column.default) else column.default, column)
    return None if raw is None else _convert(raw, column)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _means_null(raw: Any, column: Column) -> bool:
    if isinstance(raw, str):
        return raw in column.null_values
    return _is_number(raw) and any(raw == Decimal(text) for text in column.null_values if re.fullmatch(r"-?\d+", text))


def _convert(raw: Any, column: Column) -> Any:
    if column.type == "STRING":
        return _text(raw)
    if column.type == "BOOLEAN":
        return raw if isinstance(raw, bool) else _refuse("wrong_type")
    if column.type == "TIMESTAMP":
        return _time(raw)
    value = _number(raw, column.type)
    if column.between and not Decimal(str(column.between[0])) <= value <= Decimal(str(column.between[1])):
        _refuse("out_of_range")
    return value


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        _refuse("wrong_type")
    if any("\ud800" <= character <= "\udfff" for character in raw):
        _refuse("invalid_text")
    return raw


def _number(raw: Any, type_: str) -> Any:
    if not _is_number(raw):
        _refuse("wrong_type")
    if type_ == "DOUBLE":
        return float(raw) + 0.0 if abs(float(raw)) != float("inf") else _refuse("out_of_range")
    if type_ in _LIMITS:
        if not -_LIMITS[type_] <= raw < _LIMITS[type_]:
            _refuse("out_of_range")
        return int(raw) if raw == int(raw) else _refuse("wrong_type")
    precision, scale = map(int, re.findall(r"\d+", type_))
    with localcontext(prec=500):
        rounded_number = raw.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        return rounded_number if abs(rounded_number) < Decimal(10) ** (precision - scale) else _refuse("out_of_range")


def _time(raw: Any) -> datetime:
    if not isinstance(raw, str):
        _refuse("wrong_type")
    match = _TIME.fullmatch(raw)
    if match is None:
        _refuse("wrong_time_format")
    day, time, fraction, sign, hours, minutes = match.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC)
    except ValueError:
        _refuse("no_such_date")
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    return local + timedelta(microseconds=int((fraction or "0").ljust(6, "0"))) - offset
