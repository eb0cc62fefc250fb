"""The values of one field in many records → a column, where each is plainly fine.

What is not is NULL and marked: a value of another type, out of bounds, missing where it is required, or one whose
rounding the binary fraction that a native parser made of it cannot tell.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf, nextafter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.fast.plain_times import parse_times
from lakehouse.decoding.fields import WHOLE, Beyond, Field, Rejection, is_text
from lakehouse.decoding.times import EPOCHS
from lakehouse.decoding.values import as_read, convert_value

Mask = npt.NDArray[np.bool_]
_NONE = type(None)
_MADE = {datetime, date, Decimal, Beyond}
_FAR = WHOLE["BIGINT"]
_SHORT = 18  # bytes of a number that 64 bits hold, as a whole number or to its nearest double
_MOST_SCALE = 18  # of a power of ten in 64 bits
_DAY = 86_400_000_000  # microseconds
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 to 9999, from 1970


class Converted(NamedTuple):
    """A column: its values, where there is one, where value or NULL is plainly right, and the rows that hold a zero.

    A zero may be a number whose exponent is beyond any. A value that was ``found`` stands in the record: no default.
    """

    values: pa.Array
    present: Mask
    plain: Mask
    zeros: list[int]
    is_text: bool
    found: Mask


def convert(raw: list[Any], field: Field) -> Converted:
    """Convert what a native parser made of one field."""
    converted = _convert(raw, field)
    if field.default is not None:
        return _with_default(converted, raw, field)
    plain = converted.plain & converted.present if field.required else converted.plain
    return converted._replace(plain=plain)


def convert_any(raw: list[Any], field: Field) -> Converted:
    """Convert what another parser made of one field: also days, moments and decimals as they are."""
    written = field.pattern or field.epoch or field.type not in ("TIMESTAMP", "DATE")
    if written and not field.inner and _MADE.isdisjoint(map(type, raw)):
        return convert(raw, field)
    return _one_by_one(raw, field, lambda _: True)


def _one_by_one(raw: list[Any], field: Field, is_sure: Callable[[Any], bool]) -> Converted:
    """Convert by the strict rules what is surely what was written."""
    plain = np.ones(len(raw), bool)
    converted: list[Any] = [None] * len(raw)
    for row, value in enumerate(raw):
        try:
            plain[row] = is_sure(value)
            converted[row] = convert_value(value, field) if plain[row] else None
        except Rejection:
            plain[row] = False
    values = pa.array(converted, arrow_type(field.type))
    return _converted(values, _valid(values), plain)


def _is_sure(raw: Any, field: Field) -> bool:
    """Whether a native parser lost nothing of a value: of numbers with a fraction it makes doubles."""
    if not field.inner or not isinstance(raw, dict | list):
        return type(raw) is not float or (field.type == "DOUBLE" and raw != 0 and not field.nulls)
    if field.type.startswith("STRUCT"):
        return isinstance(raw, dict) and all(_is_sure(raw.get(each.name), each) for each in field.inner)
    (item,) = field.inner
    return all(_is_sure(each, item) for each in (raw.values() if isinstance(raw, dict) else raw))


def read_parts(parts: list[Any], field: Field) -> list[Any]:
    """What parts of records beside their values say, as ``values.as_read``; an odd value for what is not plain."""
    return [_read_part(part, field) if type(part) is bytes else part for part in parts]


def _read_part(part: bytes, field: Field) -> Any:
    try:
        said = as_read(part, field)
    except Rejection:
        return ()
    if type(said) is not Decimal:
        return () if type(said) is Beyond else said
    if len(part) > _SHORT or b"e" in part.lower():
        return ()
    return float(said) if b"." in part else int(said)


def _with_default(converted: Converted, raw: list[Any], field: Field) -> Converted:
    """The column with its default where the record has no value; where it has one that is not plain, any will do."""
    missing = np.fromiter((value is None for value in raw), bool, len(raw))
    default = pa.scalar(convert_value(None, field), converted.values.type)
    zeros = [row for row in converted.zeros if not missing[row]]
    return converted._replace(
        values=converted.values.fill_null(default), present=converted.present | missing, zeros=zeros
    )


def _convert(raw: list[Any], field: Field) -> Converted:
    if field.inner:
        return _one_by_one(raw, field, lambda value: _is_sure(value, field))
    if field.epoch is not None:
        return _epochs(raw, field)
    if field.type in ("TIMESTAMP", "DATE", "STRING"):
        return _texts(raw, field)
    if field.type == "BOOLEAN":
        cleaned, plain = _of_types(raw, {bool})
        values = pa.array(cleaned, pa.bool_())
        return _converted(values, _valid(values), plain)
    return _whole(raw, field) if field.type in WHOLE else _fractions(raw, field)


def _converted(
    values: pa.Array, present: Mask, plain: Mask, zeros: Sequence[int] = (), text: bool = False
) -> Converted:
    return Converted(values, present, plain, list(zeros), text, present)


def _of_types(raw: list[Any], types: set[type]) -> tuple[list[Any], Mask]:
    """Return the values with ``None`` for what is of another type, and where none is."""
    allowed = types | {_NONE}
    if set(map(type, raw)) <= allowed:
        return raw, np.ones(len(raw), bool)
    plain = [type(value) in allowed for value in raw]
    return [value if fine else None for value, fine in zip(raw, plain, strict=True)], np.array(plain)


def _texts(raw: list[Any], field: Field) -> Converted:
    cleaned, plain = _of_types(raw, {str})
    try:
        texts = pa.array(cleaned, pa.large_string())
    except UnicodeEncodeError:  # half of a surrogate pair, which only our own parser lets through
        plain &= np.array([value is None or is_text(value) for value in cleaned])
        texts = pa.array([v if fine else None for v, fine in zip(cleaned, plain, strict=True)], pa.large_string())
    present = _valid(texts)
    if field.type == "STRING":
        return _converted(texts.cast(pa.string()), present, plain, text=True)
    times, read = parse_times(texts, field.pattern or "")
    plain &= read | ~present
    if field.type == "DATE":
        times = (times // 86_400_000_000).astype(np.int32)
    return _converted(_array(times, read, arrow_type(field.type)), present, plain, text=True)


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
    return _converted(_array(numbers.astype(dtype), present & within, arrow_type(field.type)), present, plain)


def _fractions(raw: list[Any], field: Field) -> Converted:
    """Numbers with a fraction."""
    doubles, present, plain = _doubles(raw)
    if field.type == "DOUBLE":
        least, most = _bounds_as_doubles(field)
        within = (doubles >= least) & (doubles <= most)
        values = pa.array(doubles, mask=~within)
    else:
        precision, scale = (int(part) for part in field.type[8:-1].split(","))
        bounds = _bounds_in_units(field, scale, range(1 - 10**precision, 10**precision))
        units, within = _units(doubles, scale, bounds)
        values = _decimals(units, within, arrow_type(field.type))
    return _converted(values, present, plain & (within | ~present), _zeros(doubles))


def _epochs(raw: list[Any], field: Field) -> Converted:
    """Numbers that are times: of days, or rounded to microseconds."""
    if field.type == "DATE":
        days = _whole(raw, field._replace(type="INT", least=_FIRST_DAY, most=_LAST_DAY))
        return days._replace(values=days.values.cast(pa.date32()))
    doubles, present, plain = _doubles(raw)
    bounds = _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
    times, within = _units(doubles, EPOCHS[field.epoch or "seconds"], bounds)
    values = _array(times, within, arrow_type(field.type))
    return _converted(values, present, plain & (within | ~present), _zeros(doubles))


def _doubles(raw: list[Any]) -> tuple[npt.NDArray[np.float64], Mask, Mask]:
    """Numbers, NaN where there is none (no JSON holds one), where one is, and where that is plainly so."""
    cleaned, plain = _of_types(raw, {float, int})
    doubles = np.array(cleaned, np.float64) + 0.0
    return doubles, ~np.isnan(doubles), plain


def _zeros(doubles: npt.NDArray[np.float64]) -> list[int]:
    return list(np.flatnonzero(doubles == 0).tolist())


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


def _units(doubles: npt.NDArray[np.float64], scale: int, bounds: tuple[int, int]) -> tuple[npt.NDArray[np.int64], Mask]:
    """Round doubles to units of the last place; and where that is how the number as written is rounded, within bounds.

    The number written differs from its double by at most 2**-53 of it. The double is split exactly; its fraction times
    the power of ten differs from the exact product by two roundings of at most 2**-53 each. So a number whose fraction
    is further than that from a tie lies on the same side of it as written, a thousandth allowed for the sum itself.
    """
    least, most = bounds
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.trunc(doubles)
        fraction = (doubles - whole) * float(10**scale)
        rounded = np.rint(fraction)
        off = (np.abs(doubles) * float(10**scale) + 2 * np.abs(fraction)) * (2.0**-53 * 1.001)
        sure = np.abs(np.abs(fraction - rounded) - 0.5) > off
        sure &= np.abs(doubles) < min(2.0**53, 2.0**62 / float(10**scale))
    if scale > _MOST_SCALE:
        sure &= whole == 0
    units = np.where(sure, whole, 0).astype(np.int64) * 10 ** min(scale, _MOST_SCALE)
    units += np.where(sure, rounded, 0).astype(np.int64)
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
