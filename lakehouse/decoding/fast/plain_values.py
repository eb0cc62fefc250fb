"""Filter values by type; return them as an Arrow array, with a mask of their rows."""

from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fields import is_text

_NULL_TYPE = type(None)


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
