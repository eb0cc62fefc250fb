"""The values of one field in many records → a column, where each is plainly fine.

What is not is NULL and marked: a value of another type, out of bounds, missing where it is required, or one whose
rounding the binary fraction that a native parser made of it cannot tell.
"""

from fractions import Fraction
from math import ceil, floor, inf, nextafter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.declaration.arrow import arrow_type
from lakehouse.declaration.quick_times import parse_times
from lakehouse.declaration.records import WHOLE, Field

Mask = npt.NDArray[np.bool_]
_NONE = type(None)
_FAR = WHOLE["BIGINT"]


class Converted(NamedTuple):
    """A column: its values, where there is one, where value or NULL is plainly right, and the rows that hold a zero.

    A zero may be a number whose exponent is beyond any.
    """

    values: pa.Array
    present: Mask
    plain: Mask
    zeros: list[int]
    is_text: bool


def convert(raw: list[Any], field: Field) -> Converted:
    """Convert what a native parser made of one field."""
    if field.type in ("TIMESTAMP", "DATE", "STRING"):
        converted = _texts(raw, field)
    elif field.type == "BOOLEAN":
        cleaned, plain = _of_types(raw, {bool})
        values = pa.array(cleaned, pa.bool_())
        converted = Converted(values, _valid(values), plain, [], False)
    elif field.type in WHOLE:
        converted = _whole(raw, field)
    else:
        converted = _fractions(raw, field)
    plain = converted.plain & converted.present if field.required else converted.plain
    return converted._replace(plain=plain)


def _of_types(raw: list[Any], types: set[type]) -> tuple[list[Any], Mask]:
    """Return the values with ``None`` for what is of another type, and where none is."""
    allowed = types | {_NONE}
    if set(map(type, raw)) <= allowed:
        return raw, np.ones(len(raw), bool)
    plain = [type(value) in allowed for value in raw]
    return [value if fine else None for value, fine in zip(raw, plain, strict=True)], np.array(plain)


def _texts(raw: list[Any], field: Field) -> Converted:
    cleaned, plain = _of_types(raw, {str})
    texts = pa.array(cleaned, pa.large_string())
    present = _valid(texts)
    if field.type == "STRING":
        return Converted(texts.cast(pa.string()), present, plain, [], True)
    times, read = parse_times(texts, field.pattern or "")
    plain &= read | ~present
    if field.type == "DATE":
        times = (times // 86_400_000_000).astype(np.int32)
    return Converted(_array(times, read, arrow_type(field.type)), present, plain, [], True)


def _whole(raw: list[Any], field: Field) -> Converted:
    cleaned, plain = _of_types(raw, {int})
    try:
        values = pa.array(cleaned, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        small = [value is None or -_FAR <= value < _FAR for value in cleaned]
        plain &= np.array(small)
        values = pa.array([value if fits else None for value, fits in zip(cleaned, small, strict=True)], pa.int64())
    present, numbers = _valid(values), values.fill_null(0).to_numpy()
    least, most = _bounds_in_units(field, 0, range(-WHOLE[field.type], WHOLE[field.type]))
    within = (numbers >= least) & (numbers <= most)
    plain &= within | ~present
    dtype = np.int32 if field.type == "INT" else np.int64
    return Converted(_array(numbers.astype(dtype), present & within, arrow_type(field.type)), present, plain, [], False)


def _fractions(raw: list[Any], field: Field) -> Converted:
    """Numbers with a fraction; a missing one is NaN, which no JSON holds."""
    cleaned, plain = _of_types(raw, {float, int})
    doubles = np.array(cleaned, np.float64) + 0.0
    present = ~np.isnan(doubles)
    if field.type == "DOUBLE":
        least, most = _bounds_as_doubles(field)
        within = (doubles >= least) & (doubles <= most)
        values = pa.array(doubles, mask=~within)
    else:
        units, within = _units(doubles, field)
        values = _decimals(units, within, arrow_type(field.type))
    return Converted(values, present, plain & (within | ~present), np.flatnonzero(doubles == 0).tolist(), False)


def _bounds_as_doubles(field: Field) -> tuple[float, float]:
    """The least and greatest double within the bounds, which need not be doubles."""
    least = -inf if field.least is None else float(field.least)
    most = inf if field.most is None else float(field.most)
    if field.least is not None and least < field.least:
        least = nextafter(least, inf)
    if field.most is not None and most > field.most:
        most = nextafter(most, -inf)
    return least, most


def _bounds_in_units(field: Field, scale: int, held: range) -> tuple[int, int]:
    """The least and greatest number of units of the last place within the bounds and what the type holds.

    Beyond 64 bits they mean the same as at their end: units are less than that.
    """
    least = held[0] if field.least is None else max(held[0], ceil(Fraction(field.least) * 10**scale))
    most = held[-1] if field.most is None else min(held[-1], floor(Fraction(field.most) * 10**scale))
    return max(-_FAR, min(least, _FAR - 1)), max(-_FAR, min(most, _FAR - 1))


def _units(doubles: npt.NDArray[np.float64], field: Field) -> tuple[npt.NDArray[np.int64], Mask]:
    """Round doubles to units of the last place; and where that is how the number as written is rounded.

    The number written, its double and the product differ by less than 2**-51 of it (three roundings of at most
    2**-53 each), so a number further than 2**-50 of itself from a tie lies on the same side of it as written.
    """
    precision, scale = (int(part) for part in field.type[8:-1].split(","))
    least, most = _bounds_in_units(field, scale, range(1 - 10**precision, 10**precision))
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = doubles * float(10**scale)
        rounded = np.rint(scaled)
        sure = np.abs(np.abs(scaled - rounded) - 0.5) > np.abs(scaled) * 2.0**-50
    units = np.where(sure, rounded, 0).astype(np.int64)
    return units, sure & (units >= least) & (units <= most)


def _decimals(units: npt.NDArray[np.int64], present: Mask, type_: pa.DataType) -> pa.Array:
    """Widen whole numbers of units to the 128 bits in which Arrow holds a decimal."""
    wide = np.empty((len(units), 2), np.int64)
    wide[:, 0] = units
    wide[:, 1] = units >> 63
    return pa.Array.from_buffers(type_, len(units), [_bits(present), pa.py_buffer(wide)])


def _array(numbers: npt.NDArray[Any], present: Mask, type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(type_, len(numbers), [_bits(present), pa.py_buffer(np.ascontiguousarray(numbers))])


def _bits(present: Mask) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _valid(values: pa.Array) -> Mask:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
