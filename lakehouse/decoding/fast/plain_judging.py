"""What a native parser certainly says about many records: under which name fields are, and which are null or late."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_paths import values_at, values_in_part
from lakehouse.decoding.fast.plain_texts import read_texts
from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import VALUE
from lakehouse.decoding.times import Lateness
from lakehouse.decoding.values import has_explicit_null, is_null_value

_MAX_TIME = 2**62


def is_unambiguous(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> Any:
    """Which records have a field under its current name, and no value that may be a declared null value."""
    is_unambiguous = np.ones(len(objects), bool)
    if field.former:
        is_unambiguous &= _uses_current_name(objects, field)
    if field.null_values:
        raws = values_in_part(objects, part_values, field)
        raws = read_texts(raws, field) if field.reads_text and field.part == VALUE else raws
        is_unambiguous &= np.fromiter((not _may_be_null(raw, field) for raw in raws), bool, len(objects))
    return is_unambiguous


def _uses_current_name(objects: list[dict[str, Any]], field: Field) -> Mask:
    """A mask of the objects that have a value at the field's path, or none at its former path.

    A text on the former path may hold objects.
    """
    pairs = zip(values_at(objects, field.names), values_at(objects, field.former), strict=True)
    is_used = (former is None or (current is not None and former != ()) for current, former in pairs)
    return np.fromiter(is_used, bool, len(objects))


def _may_be_null(raw: Any, field: Field) -> bool:
    """Whether a value may be a declared null value; other parts of a record are bytes, which may always be one."""
    return raw is not None and (type(raw) is bytes or is_null_value(raw, field.null_values))


def explicit_nulls_of(objects: list[dict[str, Any]], field: Field, is_plain: Mask) -> pa.Array:
    """Which of the plain records have an explicit null for a field."""
    explicit_nulls = (
        flag and value is None and has_explicit_null(obj, field)
        for obj, value, flag in zip(objects, values_at(objects, field.names), is_plain.tolist(), strict=True)
    )
    return pa.array(explicit_nulls, pa.bool_(), size=len(objects))


def judge_late_rows(events: pa.Array, broker_times: pa.Array, rule: Lateness) -> tuple[Mask, Mask]:
    """Masks of the rows that are late, and of those for which that is certain: a huge difference may overflow."""
    unit = 86_400_000_000 if events.type == pa.date32() else 1
    event_times = events.cast(pa.int32() if unit > 1 else pa.int64()).fill_null(0).to_numpy().astype(np.int64) * unit
    times = broker_times.fill_null(0).to_numpy()
    has_times = (events.is_valid().to_numpy(zero_copy_only=False)) & broker_times.is_valid().to_numpy(
        zero_copy_only=False
    )
    is_certain = (times > -_MAX_TIME) & (times < _MAX_TIME)
    limit = min(rule.limit // timedelta(microseconds=1), _MAX_TIME * 2 - 1)
    return has_times & (times - event_times > limit), is_certain
