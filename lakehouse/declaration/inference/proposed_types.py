"""The types of columns that fit values of records, the units of times, and columns as a person writes them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from math import isinf
from typing import Any

from lakehouse.declaration.columns import Column, Time
from lakehouse.decoding.column_types import column_type_problems, is_field_name
from lakehouse.decoding.fields import WHOLE_LIMITS, Epoch, Field, Form, Limits, Place, Rejection
from lakehouse.decoding.formats.format import quote
from lakehouse.decoding.nested_types import with_inner
from lakehouse.decoding.record_parts import ParentField, RecordHeader, RecordKey
from lakehouse.decoding.time_texts import ISO8601
from lakehouse.decoding.times import EPOCHS
from lakehouse.decoding.values import convert, convert_value

_TIMES = (
    *(("TIMESTAMP", f"%Y-%m-%d{separator}%H:%M{seconds}{zone}") for separator in "T " for seconds in ("", ":%S") for
      zone in ("", "Z")),
    ("DATE", "%Y-%m-%d"),
    ("TIMESTAMP", ISO8601),  # also of times with a fraction, because many programs leave out a fraction of zero
)  # fmt: skip
_MAX_NAMES_RATIO = 4  # more names in total than this many times those of the largest object are keys of a map
_MIN_FREE_NAMES, _FREE_NAMES_RATIO, _MIN_NAME_SETS = 10, 2, 5  # that differ between records, of values of one type
_NAMED_BY_USERS = re.compile(
    r".*(label|annotation|metadata|tag|attribute|dimension|header|property|propertie|param|parameter|variable|extra)s?",
    re.IGNORECASE,
)
_USER_NAME = re.compile(r".*[./].*|\d.*", re.DOTALL)  # no field has such a name
_MAX_LEVELS = 9  # of nested values, including the scalar ones
_EMPTY_VALUES: tuple[Any, ...] = (None, {}, [])
_MAX_DIGITS, _DIGITS_OF_DOUBLE = 38, 17
_SINCE_1970 = re.compile(r"(.*_)?(time|timestamp|ts|at|date|ms|millis|epoch|created|updated|modified|expires)")
_NANOSECONDS = re.compile(r"(.*_)?(ns|nanos?)")
_PRESENT_DAYS = 10**9, 4 * 10**9  # seconds since 1970: from 2001 to 2096
_WITH_OFFSET = re.compile(r"[Tt ].*(Z|z|[+-]\d\d(:?\d\d)?)$", re.ASCII)
_LONG_FRACTION = re.compile(r"[.,]\d{7}", re.ASCII)


def type_of(values: Sequence[Any], levels: int = _MAX_LEVELS) -> tuple[str, str | None] | None:
    """A type that holds all these values, and the pattern of a time; ``None`` if there is no such type."""
    if all(isinstance(value, bool) for value in values):
        return "BOOLEAN", None
    if all(isinstance(value, str) for value in values):
        return next((time_type for time_type in _TIMES if fits(values, *time_type)), ("STRING", None))
    if all(isinstance(value, list | dict) for value in values):
        type_ = _container_type(values, levels)
        return (type_, None) if type_ else None
    if not all(isinstance(value, Decimal) for value in values):
        return None
    if all(map(_is_integer, values)):
        return ("BIGINT" if all(abs(value) < WHOLE_LIMITS["BIGINT"] for value in values) else "DECIMAL(38,0)"), None
    type_ = _fraction_type(values)
    return (type_, None) if type_ else None


def _fraction_type(values: Sequence[Decimal]) -> str | None:
    """DOUBLE if it keeps every digit, otherwise a DECIMAL; ``None`` if no type has enough digits."""
    if all(map(_is_double, values)):
        return "DOUBLE"
    numbers = [value.as_tuple() for value in values]
    scale = max(0, *(-int(number.exponent) for number in numbers))
    integer_digits = max(0, *(len(number.digits) + int(number.exponent) for number in numbers))
    return f"DECIMAL({_MAX_DIGITS},{scale})" if integer_digits + scale <= _MAX_DIGITS else None


def _is_double(value: Decimal) -> bool:
    """Whether a number is a double as programs write it: with the fewest digits, with 17, or with all its digits."""
    _, digits, exponent = value.as_tuple()
    double = float(value)
    if isinf(double) or (int(exponent) >= 0 and len(digits) > _DIGITS_OF_DOUBLE):
        return False
    return value in (Decimal(repr(double)), Decimal(f"{double:.{_DIGITS_OF_DOUBLE - 1}e}"), Decimal(double))


def _container_type(values: Sequence[Any], levels: int) -> str | None:
    """The type of arrays, or of objects whose names are keys; strings in them stay strings."""
    if all(isinstance(value, list) for value in values):
        item_type = _item_type([item for value in values for item in value], levels - 1)
        return f"ARRAY<{item_type}>" if item_type else None
    if not all(isinstance(value, dict) for value in values):
        return None
    value_type = _item_type([item for value in values for item in value.values()], levels - 1)
    return f"MAP<STRING, {value_type}>" if value_type else None


def _item_type(items: Sequence[Any], levels: int, name: str = "") -> str | None:
    """The type of values within other values: objects are structs, unless their names are keys; ``name`` if any."""
    values = [item for item in items if item is not None]
    if not values or levels == 0:
        return None
    if all(isinstance(value, dict) for value in values):
        field_values: dict[str, list[Any]] = defaultdict(list)
        for inner_name, value in chain.from_iterable(item.items() for item in values):
            field_values[inner_name].append(value)
        has_keys = has_free_names(name, values)
        return _container_type(values, levels) if has_keys else _struct_type(field_values, levels)
    value_type = type_of(values, levels)
    return value_type and ("STRING" if value_type[1] else value_type[0])


def has_free_names(name: str, objects: Sequence[dict[str, Any]]) -> bool:
    """Whether the names in the objects of a field are keys of a map, such as labels, rather than fields.

    They are if there are very many. With values of one scalar type, the name of the field or theirs may show it.
    """
    names = {inner for content in objects for inner in content}
    largest = max(map(len, objects))
    if len(names) > _MAX_NAMES_RATIO * largest:
        return True
    kinds = {type(value) for content in objects for value in content.values() if value is not None}
    if len(kinds) != 1 or not kinds <= {str, bool, Decimal}:
        return False
    if any(map(_USER_NAME.fullmatch, names)):
        return True
    name_sets = {frozenset(content) for content in objects}
    is_wide = len(names) >= max(_MIN_FREE_NAMES, _FREE_NAMES_RATIO * largest) and len(name_sets) >= _MIN_NAME_SETS
    return len(name_sets) > 1 and (is_wide or holds_user_names(name))


def holds_user_names(name: str) -> bool:
    """Whether a field has the name of an object whose names users choose, such as labels."""
    return _NAMED_BY_USERS.fullmatch(name) is not None


def _struct_type(field_values: Mapping[str, Sequence[Any]], levels: int) -> str | None:
    """A struct of the fields with a type and a valid name; of names that differ only by case, the first one."""
    fields: dict[str, str] = {}
    for name, values in field_values.items():
        type_ = _item_type(values, levels - 1, name)
        if type_ and is_field_name(name):
            fields.setdefault(name.lower(), f"{name}: {type_}")
    return f"STRUCT<{', '.join(fields.values())}>" if fields else None


def omitted_fields(value: Any, field: Field, *, with_content: bool = False) -> set[str]:
    """The fields within a value that its type does not contain; only those ``with_content``, if that is set."""
    if not field.type.startswith("STRUCT"):
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return set().union(
            *(omitted_fields(item, inner, with_content=with_content) for inner in field.inner for item in items)
        )
    content: dict[str, Any] = value if isinstance(value, dict) else {}
    known_names = {inner.name for inner in field.inner}
    omitted_names = {
        f"{field.source}.{name}"
        for name, inner_value in content.items()
        if name not in known_names and not (with_content and inner_value in _EMPTY_VALUES)
    }
    return omitted_names.union(
        *(
            omitted_fields(content.get(inner.name), inner, with_content=with_content)
            for inner in field.inner
            if inner.inner
        )
    )


def _is_integer(value: Decimal) -> bool:
    return int(value.as_tuple().exponent) >= 0 and value.adjusted() < _MAX_DIGITS


def with_type(column: Column, column_type: tuple[str, str | None]) -> Column:
    """The column with a type, and with the pattern of its times, if it has one."""
    type_, pattern = column_type
    return replace(column, type=type_, written=Time(pattern) if pattern else column.written)


def fits(values: Sequence[Any], type_: str, pattern: str | None) -> bool:
    """Whether a column of a type accepts all these values."""
    if any(column_type_problems(type_)):
        return False
    field = with_inner(Field("f", type_, Place("f"), Form(pattern=pattern), Limits(required=True)))
    try:
        return all(convert({"f": value}, (field,)) for value in values)
    except Rejection:
        return False


def kind_of(value: Any) -> str:
    """The plural name of a JSON value's kind, for messages."""
    names = {dict: "objects", list: "arrays", str: "strings", bytes: "bytes", bool: "booleans", Decimal: "numbers"}
    return names.get(type(value), "numbers out of range")


def epoch_unit(values: Sequence[Decimal]) -> Epoch | None:
    """The unit in which numbers are present-day times; ``None`` if there is none, or if numbers have a finer part.

    Nanoseconds are an exception: they are whole numbers, and rounded to microseconds.
    """
    for unit, places in EPOCHS.items():
        first, last = (day * Decimal(10) ** (6 - places) for day in _PRESENT_DAYS)
        if first <= min(values) and max(values) <= last:
            is_exact = all(value.scaleb(max(places, 0)) % 1 == 0 for value in values)  # two times may become equal
            return unit if is_exact else None
    return None


def named_epoch_unit(name: str, values: Sequence[Decimal]) -> Epoch | None:
    """Like ``epoch_unit``, but only if the name of the column is that of a time."""
    unit = epoch_unit(values)
    is_time = _SINCE_1970.fullmatch(name) or (unit == "nanoseconds" and _NANOSECONDS.fullmatch(name))
    return unit if is_time else None


def epoch_warning(name: str, unit: Epoch) -> str:
    """What to check of a number that is taken for a time."""
    is_rounded_text = ", and is rounded to microseconds" if unit == "nanoseconds" else ""
    return f"{name} looks like a time, in {unit} since 1970{is_rounded_text}. Declare BIGINT if it is a number."


def is_rounded(column: Column, values: Iterable[Any]) -> bool:
    """Whether the values of a column are times with more digits than a TIMESTAMP stores."""
    if column.time.epoch == "nanoseconds":
        return True
    return column.time.pattern == ISO8601 and any(map(_LONG_FRACTION.search, values))


def stored_time(value: Any, column: Column) -> Any:
    """The time that is stored for a value, if different values may mean the same time; otherwise the value."""
    is_shared = column.time.pattern == ISO8601 or column.time.epoch == "nanoseconds"
    return convert_value(value, column.field) if is_shared else value


def text_warnings(columns: Sequence[tuple[Column, Sequence[Any]]]) -> Iterator[str]:
    """What to check of columns of texts that are times, each with its values."""
    times = [(column, values) for column, values in columns if column.time.pattern and column.type == "TIMESTAMP"]
    rounded_names = [column.name for column, values in times if is_rounded(column, values)]
    if rounded_names:
        yield (
            f"{', '.join(rounded_names)}: fractions of more than 6 digits are rounded to microseconds."
            " Declare STRING to keep them."
        )
    local_names = [column.name for column, values in times if not all(map(_WITH_OFFSET.search, values))]
    if local_names:
        yield (
            f"{', '.join(local_names)}: times without an offset are read as UTC. If they are local times, declare"
            ' the zone too, for example Time(..., zone="Europe/Berlin").'
        )


def column_line(column: Column) -> str:
    """The expression for a proposed column."""
    arguments = [quote(column.name), quote(column.type), "doc=" + quote(column.doc)]
    arguments += ["required=True"] if column.required else []
    arguments += [f"source={text}"] if (text := _source(column)) else []
    arguments += [f"written={_written(column)}"] if column.written else []
    arguments += [f"null_values=[{', '.join(map(quote, column.null_values))}]"] if column.null_values else []
    arguments += [f"{option}=True" for option in ("keep", "null_erases") if getattr(column, option)]
    return f"Column({', '.join(arguments)})"


def _written(column: Column) -> str:
    """The expression for how records write the values of a column."""
    form = quote(column.form) if isinstance(column.form, str) else repr(column.form)
    if not isinstance(column.written, Time):
        return form
    options = [quote(column.time.pattern)] if column.time.pattern else []
    options += [f"epoch={quote(column.time.epoch)}"] if column.time.epoch else []
    return f"Time({', '.join([*options, *([f'written={form}'] if column.form else [])])})"


def _source(column: Column) -> str:
    """The expression for the source of a column; empty if it is the field with the column's name."""
    if isinstance(column.source, RecordHeader):
        return f"RecordHeader({quote(column.source.name)})"
    if isinstance(column.source, RecordKey):
        written = [] if column.source == RecordKey() else [quote(column.source.written)]
        path = [source_text(column.source.names)] if column.source.names else []
        return f"RecordKey({', '.join([*written, *path])})"
    if isinstance(column.source, ParentField):
        return f"ParentField({source_text(column.source.path)})"
    names = column.field.place.names
    return source_text(names) if names != (column.name,) else ""


def source_text(names: Sequence[str]) -> str:
    """The expression for the name of a field, or for the path to it."""
    return quote(names[0]) if len(names) == 1 else f"({', '.join(map(quote, names))})"
