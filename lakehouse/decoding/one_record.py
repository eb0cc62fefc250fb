"""Judge one record by the rules of its table, for people: a batch of one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.staged import DELETED, DETAIL, INDEX, LATE, REASON, ROWLESS, SEQUENCE
from lakehouse.decoding.verdicts import decode_values


class Verdict(NamedTuple):
    """What becomes of a row of a record: its values, or the reason and the detail of its rejection; and if it is late.

    ``reason`` is ``staged.FILTERED`` or ``staged.EMPTY`` if the record has no row, and is not rejected. ``place`` is
    the place of the row in its record, ``None`` if the record is judged as a whole. ``deletes``: it deletes the row of
    its key, and has no other values. ``is_rowless``: it is about no row of its own, and has at most a version.
    ``truncates``: it deletes every older row. ``sequence`` is its place in the order of its source.
    """

    row: dict[str, Any]
    reason: str | None
    detail: str | None
    late: bool
    place: int | None = None
    deletes: bool = False
    is_rowless: bool = False
    truncates: bool = False
    sequence: int | None = None


def judge_record(value: bytes | None, rules: Rules, parts: Mapping[str, Any]) -> list[Verdict]:
    """Return the verdicts on the rows of a record; ``parts`` are its other parts, with the broker's time."""
    arrays = {part: pa.array([content], pa.binary()) for part, content in parts.items() if part != TIME}
    times = pa.array([parts.get(TIME)], pa.int64())
    decoded = decode_values(pa.array([value], pa.large_binary()), times, rules, None, arrays)
    (verdicts,) = decoded.verdicts.to_pylist()
    return [_verdict_of(verdict, rules) for verdict in (verdicts if isinstance(verdicts, list) else [verdicts])]


def _verdict_of(verdict: Mapping[str, Any], rules: Rules) -> Verdict:
    deletes, is_rowless = verdict.get(DELETED) or False, verdict.get(ROWLESS) or False
    fields = rules.fields
    if deletes and rules.deletes:
        fields = rules.deletes.read_fields(fields)
    elif is_rowless:
        fields = rules.truncates.read_fields(fields) if rules.truncates else ()
    row = {} if verdict[REASON] else {field.name: _in_utc(verdict[field.name]) for field in fields}
    sequence = verdict.get(SEQUENCE)
    truncates = is_rowless and (sequence is not None or not rules.has_changes)
    flags = (verdict.get(INDEX), deletes, is_rowless, truncates, sequence)
    return Verdict(row, verdict[REASON], verdict[DETAIL], verdict[LATE], *flags)


def _in_utc(value: Any) -> Any:
    """A value with the times in it in the zone of Python's own."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return {name: _in_utc(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_in_utc(item) for item in value]
    return tuple(map(_in_utc, value)) if isinstance(value, tuple) else value
