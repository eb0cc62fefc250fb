"""Numbers of many records: their types, their bounds, and rounding of doubles if the result is certainly right."""

from fractions import Fraction
from math import ceil, floor, inf, nextafter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.decoding.fields import WHOLE_LIMITS, Field, is_text

Mask = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
MAX_LENGTH = 16
"""Maximum number of characters of a number without a sign that its double shows: 15 digits and a point."""
BIGINT_LIMIT = WHOLE_LIMITS["BIGINT"]
_MAX_EXACT_SCALE = 22  # of a power of ten that a double represents
_MAX_SCALE = 18  # of a power of ten in 64 bits
_NULL_TYPE = type(None)


def bounds_as_doubles(field: Field) -> tuple[float, float]:
    """The least and greatest double within the bounds, which need not be doubles themselves."""
    minimum = -inf if field.limits.minimum is None else float(field.limits.minimum)
    maximum = inf if field.limits.maximum is None else float(field.limits.maximum)
    if field.limits.minimum is not None and minimum < field.limits.minimum:
        minimum = nextafter(minimum, inf)
    if field.limits.maximum is not None and maximum > field.limits.maximum:
        maximum = nextafter(maximum, -inf)
    return minimum, maximum


def bounds_in_units(field: Field, scale: int, type_range: range) -> tuple[int, int]:
    """The bounds of the field and of its type, in units of the last decimal place.

    Bounds beyond 64 bits become the limits of 64 bits: units are always within those.
    """
    lowest, highest = type_range[0], type_range[-1]
    minimum = lowest if field.limits.minimum is None else max(lowest, ceil(Fraction(field.limits.minimum) * 10**scale))
    maximum = (
        highest if field.limits.maximum is None else min(highest, floor(Fraction(field.limits.maximum) * 10**scale))
    )
    return max(-BIGINT_LIMIT, min(minimum, BIGINT_LIMIT - 1)), max(-BIGINT_LIMIT, min(maximum, BIGINT_LIMIT - 1))


def judge_rounding(doubles: Doubles, units: npt.NDArray[np.int64], scale: int) -> tuple[Mask, Mask]:
    """Masks of the doubles whose digits were lost in ``units``, and of those for which that is certain.

    A written number with at most 15 digits is the only one of its double. So if the double is the nearest one to the
    units, no digit was lost; longer numbers are left to the strict rules, see ``exact_records``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        is_whole = np.trunc(doubles) == doubles
        is_exact = is_whole | (units / float(10**scale) == doubles)
    return ~is_exact & ~np.isnan(doubles), is_whole | ((np.abs(units) < 2**53) & (scale <= _MAX_EXACT_SCALE))


def round_to_units(doubles: Doubles, scale: int, bounds: tuple[int, int]) -> tuple[npt.NDArray[np.int64], Mask]:
    """Round doubles to units of the last place; the mask has the rows that are in bounds and certainly rounded right.

    Right means like the number as written, which differs from its double by at most 2**-53 of it. The double is split
    exactly. Its fraction times the power of ten has two rounding errors of at most 2**-53 each. If the fraction is
    further from a tie, the number as written is on the same side of it. A thousandth covers the rounding of the sum.
    """
    minimum, maximum = bounds
    with np.errstate(over="ignore", invalid="ignore"):
        whole_part = np.trunc(doubles)
        fraction = (doubles - whole_part) * float(10**scale)
        rounded_fraction = np.rint(fraction)
        max_error = (np.abs(doubles) * float(10**scale) + 2 * np.abs(fraction)) * (2.0**-53 * 1.001)
        is_certain = np.abs(np.abs(fraction - rounded_fraction) - 0.5) > max_error
        is_certain &= np.abs(doubles) < min(2.0**53, 2.0**62 / float(10**scale))
    if scale > _MAX_SCALE:
        is_certain &= whole_part == 0
    units = np.where(is_certain, whole_part, 0).astype(np.int64) * 10 ** min(scale, _MAX_SCALE)
    units += np.where(is_certain, rounded_fraction, 0).astype(np.int64)
    return units, is_certain & (units >= minimum) & (units <= maximum)


def keep_types(raw_values: list[Any], types: set[type]) -> tuple[list[Any], Mask]:
    """Return the values with ``None`` for those of other types, and a mask of the rows without those."""
    allowed_types = types | {_NULL_TYPE}
    if set(map(type, raw_values)) <= allowed_types:
        return raw_values, np.ones(len(raw_values), bool)
    is_allowed = [type(raw) in allowed_types for raw in raw_values]
    return [raw if is_kept else None for raw, is_kept in zip(raw_values, is_allowed, strict=True)], np.array(is_allowed)


def text_array(raw_values: list[Any]) -> tuple[pa.Array, Mask]:
    """Return the texts as an array, NULL for other values, and a mask of the rows that are a text or ``None``."""
    raw_texts, is_plain = keep_types(raw_values, {str})
    try:
        return pa.array(raw_texts, pa.large_string()), is_plain
    except UnicodeEncodeError:  # half of a surrogate pair, which only the strict parser accepts
        is_plain &= np.array([text is None or is_text(text) for text in raw_texts])
        texts = [text if fits else None for text, fits in zip(raw_texts, is_plain, strict=True)]
        return pa.array(texts, pa.large_string()), is_plain


def is_valid(values: pa.Array) -> Mask:
    """A mask of the rows that are not NULL."""
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
