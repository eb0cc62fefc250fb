"""Which JSON records may write more digits of a decimal than the double that a native parser made of it shows.

Two numbers with at most 15 digits have different doubles. The strict rules read every digit of longer ones.
"""

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import VALUE

MAX_LENGTH = 16
"""Maximum number of characters of a number without a sign that its double shows: 15 digits and a point."""
_LONG_NUMBER = f"[0-9.]{{{MAX_LENGTH + 1}}}|[0-9.]+[eE]"
_SIMPLE_NAME = re.compile(r"[A-Za-z0-9_. -]+", re.ASCII)
_ESCAPED_NAME = r"\\u00[2-7]"  # a name may be escaped, too


def may_hide_digits(values: pa.Array, fields: Iterable[Field]) -> Mask:
    """A mask of the JSON records in which a decimal of these fields may have more digits than its double shows."""
    decimals = [field for field in fields if field.type.startswith("DECIMAL") and field.part == VALUE]
    if not decimals:
        return np.zeros(len(values), bool)
    names = {field.names[-1] for field in decimals}
    pattern = _LONG_NUMBER
    if all(map(_SIMPLE_NAME.fullmatch, names)) and not any(field.whole_depth for field in decimals):
        any_name = "|".join(map(re.escape, sorted(names)))
        pattern = rf'"(?:{any_name})"[ \t\r\n]*:[ \t\r\n]*-?(?:{_LONG_NUMBER})|{_ESCAPED_NAME}'
    matches = pc.match_substring_regex(values.cast(pa.large_binary()), pattern)
    return np.asarray(matches.fill_null(False).to_numpy(zero_copy_only=False))
