"""Judge one record by the rules of its table: its values, or the reason why it is rejected.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.changes import read_change
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.staged import FILTERED
from lakehouse.decoding.times import judge_late
from lakehouse.decoding.values import NO_PARTS, convert


class Verdict(NamedTuple):
    """The result of decoding a record: its values, or the reason and the detail of its rejection; and if it is late.

    ``reason`` is ``staged.FILTERED`` if the record does not meet ``where``; it is then not rejected. A record that is
    rejected as late may have its values, if ``Lateness`` says so.

    ``deletes``: it deletes the row of its key, and has no other values. ``sequence`` is its place in the order of its
    source, ``snapshot`` that of ``Change``. ``is_rowless``: it is about no row of its own, and has at most a version.
    ``truncates``: it deletes every older row. ``origin`` is that of ``Change``.

    ``parsed`` is the parsed value, ``None`` if it cannot be parsed, and ``memory`` its bytes of memory at most.
    ``explicit_nulls`` says for each field of ``Rules.null_erases`` whether the record has an explicit null for it.
    """

    parsed: dict[str, Any] | None
    row: dict[str, Any]
    reason: str | None
    detail: str | None
    late: bool
    explicit_nulls: tuple[bool, ...] = ()
    memory: int = 0
    deletes: bool = False
    sequence: int | None = None
    snapshot: str | None = None
    is_rowless: bool = False
    truncates: bool = False
    origin: int | None = None


_FILTERED = Verdict(None, {}, FILTERED, None, False)


def judge(
    value: bytes | None,
    broker_time: int | None,
    rules: Rules,
    parts: Mapping[str, bytes | None] = NO_PARTS,
    memory_limits: tuple[int, int] | None = None,
) -> Verdict:
    """Decode one record strictly; ``memory_limits`` are those of ``column_memory``, if the caller has them."""
    lateness, delete_rule, memory = rules.lateness, rules.deletes, 0
    parsed: dict[str, Any] | None = None
    row: dict[str, Any] = {}
    all_parts = rules.complete_parts({**parts, TIME: broker_time})
    try:
        change = read_change(value, rules, parts)
        if change is None:
            return _FILTERED
        parsed = change.fields
        if change.is_rowless:
            row = convert(parsed, rules.truncates.read_fields(rules.fields), all_parts) if rules.truncates else {}
            verdict = Verdict(parsed, row, None, None, False, sequence=change.sequence, is_rowless=True)
            return verdict._replace(truncates=change.truncates, origin=change.origin)
        memory = rules.parser.memory_of(value)
        limits = memory_limits or column_memory(rules)
        counted_memory = memory if may_be_too_large(memory, rules.parser.size_of(value), limits) else None
        if delete_rule and change.deletes:
            row = convert(parsed, delete_rule.read_fields(rules.fields), all_parts, counted_memory)
            return Verdict(parsed, row, None, None, False, (), memory, True, change.sequence, origin=change.origin)
        row = convert(parsed, rules.fields, rules.with_unmapped(all_parts, parsed), counted_memory)
        is_late = lateness is not None and broker_time is not None and judge_late(row, broker_time, lateness)
        verdict = Verdict(parsed, row, None, None, is_late, (), memory, False, change.sequence, change.snapshot)
        return verdict._replace(origin=change.origin)
    except Rejection as rejection:
        row = row if lateness and lateness.keeps_row else {}
        return Verdict(parsed, row, rejection.reason, rejection.detail, rejection.reason == "late", memory=memory)


def may_be_too_large(memory: int, size: int, memory_limits: tuple[int, int]) -> bool:
    """Whether the columns of a value may take too much, in addition to the ``memory`` of the parsed value."""
    per_row, per_byte = memory_limits
    return memory + per_row + size * per_byte > MAX_RECORD_MEMORY
