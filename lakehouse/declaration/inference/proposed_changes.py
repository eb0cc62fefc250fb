"""A declaration proposed from the changes of a database: the key is that of the records.

A record shows the form of a value, not the type of its column. So a text or a number is only taken for a time or a
decimal if all its values have that form.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.declaration.columns import Column, Time
from lakehouse.declaration.inference.proposal import Proposal
from lakehouse.declaration.inference.proposed_key import proposed_key
from lakehouse.declaration.inference.proposed_types import epoch_unit, epoch_warning, named_epoch_unit, type_of
from lakehouse.declaration.inference.readable_records import most_common_reasons
from lakehouse.declaration.names import ARRAY_NAME, array_step, column_name
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.debezium.values import iso_time
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.decoding.formats.parser import Change
from lakehouse.decoding.records import parse
from lakehouse.decoding.written_forms import TextBoolean

_DECIMAL_TEXT = re.compile(r"-?\d{1,18}\.(\d{1,18})", re.ASCII)
_FLAG = (
    "If it is a boolean of MySQL (TINYINT(1)), a snapshot has numbers, and the log true and false: declare BOOLEAN with"
    " written=TextBoolean([1, True], [0, False])"
)
_FLAGS = TextBoolean([1, True], [0, False])
_OF_MYSQL = re.compile(rb'"(mysql|mariadb)"')
_DAYS = "{}: numbers. If it is a date in the database, declare DATE with written=Time(epoch='days')."
_UNKNOWN_KEY = "The keys of these records do not name columns. Declare the primary key of the database in place of {}."
_LONG_TEXTS = (
    "{}: texts or bytes. If a row may exceed 2,000 bytes in PostgreSQL, declare keep=True and null_erases=True for its"
    " longest columns. Otherwise an update that does not change them is rejected."
)


class KeyedValue(NamedTuple):
    """The key and the value of a record."""

    key: bytes | None
    value: bytes | None


def propose_changes(records: Iterable[KeyedValue], form: Format, schemas: Schemas = NO_SCHEMAS) -> Proposal:
    """Propose a declaration for some records of a change stream; pure and deterministic.

    Only the key is required: a column that has no NULL in these records may have one later.
    """
    contents = list(records)
    changes, refusals = _read_changes(contents, form, schemas)
    rows = [form.as_json(change.fields) for change in changes]
    warnings: list[str] = []
    proposed_columns = [_propose_column(name, rows, warnings) for name in dict.fromkeys(n for row in rows for n in row)]
    unavailable_names = frozenset[str]().union(*(change.unavailable for change in changes))
    key_fields = _key_fields([content.key for content in contents])
    names = [column.name for column in proposed_columns if column]
    key = key_fields if {*key_fields} <= {*names} else ()
    columns = [
        replace(column, required=column.name in key, keep=is_kept, null_erases=is_kept)
        for column in proposed_columns
        if column
        for is_kept in [column.field.place.names[0] in unavailable_names and column.name not in key]
    ]
    byte_names = frozenset[str]().union(*(form.byte_names(content.value) for content in contents if content.value))
    columns = [_read_bytes(column, key) if column.field.place.names[0] in byte_names else column for column in columns]
    has_text_numbers = any(_has_decimal_texts(column, rows) for column in columns)
    if not key:
        candidates = [replace(column, required=True) for column in columns]
        key = proposed_key(candidates, rows, warnings) or tuple(names[:1])
        warnings.append(_UNKNOWN_KEY.format(", ".join(key)))
        columns = [replace(c, required=c.name in key, keep=c.keep and c.name not in key) for c in columns]
        columns = [replace(c, null_erases=c.keep) for c in columns]
    warnings += _warnings(columns, key)
    if any(_OF_MYSQL.search(content.value) for content in contents if content.value):
        warnings += _flag_warnings(columns, rows, key)
    form = form.with_text_numbers() if has_text_numbers else form
    reasons = most_common_reasons(refusals)
    return Proposal(tuple(columns), key, None, tuple(warnings), len(contents), len(refusals), reasons, form)


def _read_changes(records: Sequence[KeyedValue], form: Format, schemas: Schemas) -> tuple[list[Change], list[str]]:
    """The changes that leave a row, and why other records are not changes."""
    parser = form.parser(schemas)
    changes, refusals = [], []
    for record in records:
        try:
            change = parser.read_change(record.value, ())
        except Rejection as rejection:
            refusals.append(rejection.detail)
            continue
        if not change.deletes and not change.is_rowless:
            changes.append(change)
    return changes, refusals


def _propose_column(source: str, rows: Sequence[dict[str, Any]], warnings: list[str]) -> Column | None:
    if array_step((source,)):
        warnings.append(ARRAY_NAME.format(source))
        return None
    values = [row[source] for row in rows if row.get(source) is not None]
    name = column_name(source)
    column_type = _column_type(values) if values else None
    if name and values and column_type is None and all(map(_is_flag, values)):
        return Column(name, "BOOLEAN", "", source=None if name == source else source, written=_FLAGS)
    if name is None or column_type is None:
        warnings.append(f"Field {source!r} is left out: {_why_left_out(name)}.")
        return None
    numbers = [value for value in values if isinstance(value, Decimal)]
    unit = epoch_unit(numbers) if column_type == "BIGINT" and len(numbers) == len(values) else None
    if unit == "nanoseconds":
        unit = named_epoch_unit(name, numbers)  # an id may be as large
    if unit in ("milliseconds", "microseconds", "nanoseconds"):
        warnings.append(epoch_warning(name, unit))
        return Column(name, "TIMESTAMP", "", source=None if name == source else source, written=Time(epoch=unit))
    return Column(name, column_type, "", source=None if name == source else source)


def _why_left_out(name: str | None) -> str:
    if name is None:
        return "its name cannot become the name of a column"
    return "these records do not show its type; declare it by its type in the database"


def _is_flag(value: Any) -> bool:
    """Whether a value may be a boolean of MySQL, which is a number in a snapshot."""
    return isinstance(value, bool | int | Decimal) and value in (0, 1)


def _flag_warnings(columns: Iterable[Column], rows: Sequence[dict[str, Any]], key: Sequence[str]) -> Iterator[str]:
    """Numbers of MySQL that are only 0 and 1 so far: its log may have true and false."""
    numbers = [column for column in columns if column.type == "BIGINT" and column.name not in key]
    for column in numbers:
        values = [row.get(column.field.source) for row in rows]
        if all(_is_flag(value) for value in values if value is not None):
            yield f"{column.name}: only 0 and 1. {_FLAG}."


def _column_type(values: Sequence[Any]) -> str | None:
    """The type of a column with these values; ``None`` if they show none."""
    for kind, type_ in ((datetime, "TIMESTAMP"), (bytes, "BINARY")):
        if all(isinstance(value, kind) for value in values):
            return type_
    if all(type(value) is date for value in values):
        return "DATE"
    if all(isinstance(value, str) for value in values):
        scales = {match[1] if (match := _DECIMAL_TEXT.fullmatch(value)) else "" for value in values}
        if len({len(scale) for scale in scales}) == 1 and "" not in scales:
            return f"DECIMAL(38,{len(scales.pop())})"
        return "TIMESTAMP" if all(isinstance(iso_time(value), datetime) for value in values) else "STRING"
    found_type = type_of(values)
    return found_type[0] if found_type else None


def _read_bytes(column: Column, key: Sequence[str]) -> Column:
    """The column of a text that is bytes, as the schema of its record says; no key has bytes."""
    is_text = column.type == "STRING" and column.name not in key
    return replace(column, type="BINARY", written="base64") if is_text else column


def _has_decimal_texts(column: Column, rows: Sequence[dict[str, Any]]) -> bool:
    values = (row.get(column.field.place.names[0]) for row in rows)
    return column.type.startswith("DECIMAL") and any(isinstance(value, str) for value in values)


def _key_fields(keys: Sequence[bytes | None]) -> tuple[str, ...]:
    """The names of the fields in the keys of records; empty if they are not JSON objects, or not all alike."""
    names = set()
    for key in keys:
        try:
            content = parse(key)
        except Rejection:
            continue
        payload = content["payload"] if content.keys() == {"schema", "payload"} else content
        names.add(tuple(column_name(name) or "" for name in payload) if isinstance(payload, dict) else ())
    return names.pop() if len(names) == 1 else ()


def _warnings(columns: Sequence[Column], key: Sequence[str]) -> Iterable[str]:
    """What these records cannot show."""
    integers = [column.name for column in columns if column.type == "BIGINT" and column.name not in key]
    texts = [
        column.name
        for column in columns
        if column.type in ("STRING", "BINARY") and not column.keep and column.name not in key
    ]
    if integers:
        yield _DAYS.format(", ".join(integers))
    if texts:
        yield _LONG_TEXTS.format(", ".join(texts))
    decimals = [column.name for column in columns if column.type.startswith("DECIMAL")]
    if decimals:
        yield f"{', '.join(decimals)}: declare the precision that the database has, for example DECIMAL(12,2)."
