"""Of which records the native parser of JSON is not certain, although it read them: the strict parser reads these."""

import re

import numpy as np
import pyarrow as pa

from lakehouse.decoding.batch import RecordBatch
from lakehouse.decoding.fast.plain_digits import may_hide_digits
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.unique_names import has_unique_names

_HUGE_EXPONENT = re.compile(rb"[eE][+-]?\d{9}")


def doubt_inexact(batch: RecordBatch, is_parsed: Mask) -> None:
    """Leave records to the strict parser that may have equal names, more digits than a double, or a huge exponent."""
    if not batch.native:
        return
    is_parsed, count = is_parsed[: len(batch)], len(batch)
    is_odd = np.zeros(count, bool)
    for record in batch.zero_records:
        is_odd[record] = record < count and bool(_HUGE_EXPONENT.search(batch.values[record] or b""))
    is_odd |= may_hide_digits(pa.array(batch.values, pa.large_binary()), batch.rules.fields)
    is_odd &= ~batch.is_filtered
    is_odd |= ~has_unique_names(batch.values, batch.contents, batch.native)
    batch.is_uncertain |= is_odd & is_parsed
