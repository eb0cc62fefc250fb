"""Convert the values of one field in many records to a column, if each is certainly valid."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.column_types import digits_of
from lakehouse.decoding.conversion.numbers import (
    BIGINT_LIMIT,
    Doubles,
    Mask,
    bounds_as_doubles,
    bounds_in_units,
    is_valid,
    judge_rounding,
    keep_types,
    round_to_units,
    text_array,
)
from lakehouse.decoding.conversion.times import parse_times
from lakehouse.decoding.conversion.written import has_every_digit, is_exact_json, read_plainly, read_unscaled
from lakehouse.decoding.fields import (
    WHOLE_LIMITS,
    Field,
    OpenedList,
    OpenedText,
    Rejection,
    UnopenedText,
    UnrepresentableValue,
)
from lakehouse.decoding.numbers import has_rounded
from lakehouse.decoding.record_parts import TYPED_ENCODINGS
from lakehouse.decoding.times import EPOCHS
from lakehouse.decoding.values import EXACT_KINDS, convert_value
from lakehouse.decoding.written_forms import becomes_json

_OPENED = {OpenedText, OpenedList, UnopenedText}
_TYPED_VALUES = {datetime, date, Decimal, UnrepresentableValue}
_DAY = 86_400_000_000  # microseconds
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999, from 1970


class ConvertedColumn(NamedTuple):
    """A column with masks of its rows: ``has_value``, ``is_plain`` if value or NULL is certainly right.

    ``is_rounded`` is a mask of the decimals that lost digits; ``None`` if there are none.
    """

    values: pa.Array
    has_value: Mask
    is_plain: Mask
    is_rounded: Mask | None = None


def convert_column(raw_values: list[Any], field: Field) -> ConvertedColumn:
    """Convert the values that a native parser made of one field."""
    column = _convert(raw_values, field)
    if field.limits.default is not None:
        return _with_default(column, raw_values, field)
    is_plain = column.is_plain & column.has_value if field.limits.required else column.is_plain
    return column._replace(is_plain=is_plain)


def convert_typed_column(raw_values: list[Any], field: Field, *, is_native: bool = False) -> ConvertedColumn:
    """Convert the values that another parser made of one field, which may be dates, times and decimals already.

    ``is_native``: a native parser made the others.
    """
    raw_values = _without_opened(raw_values)
    is_untyped = field.form.pattern or field.form.epoch or field.type not in ("TIMESTAMP", "DATE")
    is_scalar = not field.inner and not becomes_json(field.form.written)
    if (is_native or (is_untyped and is_scalar)) and _TYPED_VALUES.isdisjoint(map(type, raw_values)):
        return convert_column(raw_values, field)
    return _convert_each(raw_values, field, lambda raw: not is_native or _is_exact(raw, field))


def convert_part_column(raw_values: list[Any], field: Field) -> ConvertedColumn:
    """Convert the values of one field in another part of records; those of keys with a schema have types already."""
    convert = convert_typed_column if field.place.key_encoding in TYPED_ENCODINGS else convert_column
    return convert(_without_opened(raw_values), field)


def _without_opened(raw_values: list[Any]) -> list[Any]:
    """The values, without texts that were opened on the way to another field: the strict rules know how they were."""
    if _OPENED.isdisjoint(map(type, raw_values)):
        return raw_values
    return [() if type(raw) in _OPENED else raw for raw in raw_values]


def _convert_each(raw_values: list[Any], field: Field, is_exact: Callable[[Any], bool]) -> ConvertedColumn:
    """Convert by the strict rules the values that are certainly as they were written."""
    is_plain = np.ones(len(raw_values), bool)
    converted_values: list[Any] = [None] * len(raw_values)
    for row, raw in enumerate(raw_values):
        try:
            is_plain[row] = is_exact(raw)
            converted_values[row] = convert_value(raw, field) if is_plain[row] else None
        except Rejection:
            is_plain[row] = False
    values = pa.array(converted_values, arrow_type(field.type))
    column = ConvertedColumn(values, is_valid(values), is_plain)
    if "DECIMAL" not in field.type:
        return column
    return column._replace(is_rounded=np.fromiter(map(has_rounded, converted_values), bool, len(raw_values)))


def _is_exact(raw: Any, field: Field) -> bool:
    """Whether a native parser lost nothing of a value; it makes doubles of numbers with a fraction."""
    if not field.inner or not isinstance(raw, dict | list):
        return type(raw) is not float or (field.type == "DOUBLE" and raw != 0 and not field.form.null_values)
    if field.type.startswith("STRUCT"):
        return isinstance(raw, dict) and all(_is_exact(raw.get(inner.name), inner) for inner in field.inner)
    (item_field,) = field.inner
    return all(_is_exact(item, item_field) for item in (raw.values() if isinstance(raw, dict) else raw))


def _with_default(column: ConvertedColumn, raw_values: list[Any], field: Field) -> ConvertedColumn:
    """Fill the default into rows without a value in the record; in rows that are not plain any value will do."""
    is_missing = np.fromiter((raw is None for raw in raw_values), bool, len(raw_values))
    default = pa.scalar(convert_value(None, field), column.values.type)
    return column._replace(values=column.values.fill_null(default), has_value=column.has_value | is_missing)


def _convert(raw_values: list[Any], field: Field) -> ConvertedColumn:
    if field.inner:
        return _convert_each(
            raw_values, field, is_exact_json if field.form.written else lambda raw: _is_exact(raw, field)
        )
    if field.form.written is not None:
        return _convert_written(raw_values, field)
    if field.form.epoch is not None:
        return _convert_epochs(raw_values, field)
    if field.type in ("STRING", "TIMESTAMP", "DATE"):
        return _convert_texts(raw_values, field)
    if field.type in EXACT_KINDS:
        clean_values, is_plain = keep_types(raw_values, {EXACT_KINDS[field.type]})
        values = pa.array(clean_values, arrow_type(field.type))
        return ConvertedColumn(values, is_valid(values), is_plain)
    return _convert_whole(raw_values, field) if field.type in WHOLE_LIMITS else _convert_fractions(raw_values, field)


def _convert_written(raw_values: list[Any], field: Field) -> ConvertedColumn:
    """Convert values that are not in JSON's own form."""
    if field.form.written == "otlp":
        return _convert_each(raw_values, field, is_exact_json)
    if field.form.written == "connect":
        is_own_scale = dict in set(map(type, raw_values))
        return (
            _convert_each(raw_values, field, has_every_digit) if is_own_scale else _convert_unscaled(raw_values, field)
        )
    plain = read_plainly(raw_values, field)
    column = _convert(plain.values, field._replace(form=field.form._replace(written=None)))
    return column._replace(is_plain=column.is_plain & plain.is_plain)


def _convert_texts(raw_values: list[Any], field: Field) -> ConvertedColumn:
    if field.type != "STRING" and field.form.pattern is None:  # only a typed format gives times to such a column
        return _convert_each(raw_values, field, lambda _: True)
    texts, is_plain = text_array(raw_values)
    has_value = is_valid(texts)
    if field.type == "STRING":
        return ConvertedColumn(texts.cast(pa.string()), has_value, is_plain)
    times, is_parsed = parse_times(texts, field)
    is_plain &= is_parsed | ~has_value
    if field.type == "DATE":
        times = (times // 86_400_000_000).astype(np.int32)
    return ConvertedColumn(_array(times, is_parsed, arrow_type(field.type)), has_value, is_plain)


def _convert_whole(raw_values: list[Any], field: Field) -> ConvertedColumn:
    clean_values, is_plain = keep_types(raw_values, {int})
    try:
        values = pa.array(clean_values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        fits = [value is None or -BIGINT_LIMIT <= value < BIGINT_LIMIT for value in clean_values]
        is_plain &= np.array(fits)
        values = pa.array([v if fitting else None for v, fitting in zip(clean_values, fits, strict=True)], pa.int64())
    has_value, numbers = is_valid(values), values.fill_null(0).to_numpy()
    minimum, maximum = bounds_in_units(field, 0, range(-WHOLE_LIMITS[field.type], WHOLE_LIMITS[field.type]))
    in_bounds = (numbers >= minimum) & (numbers <= maximum)
    is_plain &= in_bounds | ~has_value
    dtype = np.int32 if field.type == "INT" else np.int64
    converted_values = _array(numbers.astype(dtype), has_value & in_bounds, arrow_type(field.type))
    return ConvertedColumn(converted_values, has_value, is_plain)


def _convert_fractions(raw_values: list[Any], field: Field) -> ConvertedColumn:
    """Convert to DOUBLE or DECIMAL."""
    doubles, has_value, is_plain = _to_doubles(raw_values)
    if field.type == "DOUBLE":
        minimum, maximum = bounds_as_doubles(field)
        in_bounds = (doubles >= minimum) & (doubles <= maximum)
        values = pa.array(doubles, mask=~in_bounds)
    else:
        precision, scale = digits_of(field.type)
        bounds = bounds_in_units(field, scale, range(1 - 10**precision, 10**precision))
        units, in_bounds = round_to_units(doubles, scale, bounds)
        values = _decimals(units, in_bounds, arrow_type(field.type))
    column = ConvertedColumn(values, has_value, is_plain & (in_bounds | ~has_value))
    if field.type == "DOUBLE":
        return column
    is_rounded, is_certain = judge_rounding(doubles, units, scale)
    is_plain = column.is_plain & (is_certain | ~has_value) & ~(is_rounded & field.limits.rejects_rounding)
    return column._replace(is_plain=is_plain, is_rounded=is_rounded & in_bounds)


def _convert_unscaled(raw_values: list[Any], field: Field) -> ConvertedColumn:
    """Convert unscaled numbers to DECIMAL."""
    plain = read_unscaled(raw_values)
    precision, scale = digits_of(field.type)
    minimum, maximum = bounds_in_units(field, scale, range(1 - 10**precision, 10**precision))
    has_value = np.array([units is not None for units in plain.values], bool)
    units = np.array([units or 0 for units in plain.values], np.int64)
    in_bounds = has_value & (units >= minimum) & (units <= maximum)
    values = _decimals(units, in_bounds, arrow_type(field.type))
    return ConvertedColumn(values, has_value, plain.is_plain & (in_bounds | ~has_value))


def _convert_epochs(raw_values: list[Any], field: Field) -> ConvertedColumn:
    """Convert numbers to DATE, or to TIMESTAMP, rounded to microseconds."""
    if field.type == "DATE":
        limits = field.limits._replace(minimum=_FIRST_DAY, maximum=_LAST_DAY)
        days = _convert_whole(raw_values, field._replace(type="INT", limits=limits))
        return days._replace(values=days.values.cast(pa.date32()))
    if field.form.epoch == "nanoseconds":
        return _convert_nanoseconds(raw_values, field)
    doubles, has_value, is_plain = _to_doubles(raw_values)
    bounds = _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
    times, in_bounds = round_to_units(doubles, EPOCHS[field.form.epoch or "seconds"], bounds)
    values = _array(times, in_bounds, arrow_type(field.type))
    return ConvertedColumn(values, has_value, is_plain & (in_bounds | ~has_value))


def _convert_nanoseconds(raw_values: list[Any], field: Field) -> ConvertedColumn:
    """Convert whole numbers of nanoseconds, which a double does not represent, rounded like other numbers."""
    column = _convert_whole(raw_values, field._replace(type="BIGINT"))
    microseconds, rest = np.divmod(column.values.fill_null(0).to_numpy(), 1000)
    times = microseconds + np.where(microseconds < 0, rest > 500, rest >= 500)
    return column._replace(values=_array(times, is_valid(column.values), arrow_type(field.type)))


def _to_doubles(raw_values: list[Any]) -> tuple[Doubles, Mask, Mask]:
    """The numbers, NaN for null (JSON has no NaN), and masks of the rows that have a number and that are plain."""
    clean_values, is_plain = keep_types(raw_values, {float, int})
    doubles = np.array(clean_values, np.float64) + 0.0
    return doubles, ~np.isnan(doubles), is_plain


def _decimals(units: npt.NDArray[np.int64], has_value: Mask, type_: pa.DataType) -> pa.Array:
    """Widen whole numbers of units to the 128 bits of an Arrow decimal."""
    wide = np.empty((len(units), 2), np.int64)
    wide[:, 0] = units
    wide[:, 1] = units >> 63
    return pa.Array.from_buffers(type_, len(units), [_bitmap(has_value), pa.py_buffer(wide)])


def _array(numbers: npt.NDArray[Any], has_value: Mask, type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(type_, len(numbers), [_bitmap(has_value), pa.py_buffer(np.ascontiguousarray(numbers))])


def _bitmap(has_value: Mask) -> pa.Buffer | None:
    return None if has_value.all() else pa.py_buffer(np.packbits(has_value, bitorder="little"))
