"""Judge one record by the rules of its table: its values, or the reason why it is rejected.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.changes import read_change
from lakehouse.decoding.deletes import DeleteRule
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.format import Parser
from lakehouse.decoding.formats.json_format import JsonParser
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, column_memory_per_byte, row_memory
from lakehouse.decoding.opened_texts import with_opened_texts
from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.staged import DELETED, ROWLESS
from lakehouse.decoding.times import Lateness, judge_late
from lakehouse.decoding.values import NO_PARTS, convert


class Rules(NamedTuple):
    """The rules for a record: for each field, for lateness, deletes and truncates, and the parser of its value."""

    fields: tuple[Field, ...]
    lateness: Lateness | None
    parser: Parser = JsonParser()
    deletes: DeleteRule | None = None
    truncates: DeleteRule | None = None

    def with_parser(self, parser: Parser) -> "Rules":
        """Return the rules for values that another parser parses; it also opens texts on the way to a field."""
        return self._replace(parser=with_opened_texts(parser, self.mapped_fields))

    @property
    def has_changes(self) -> bool:
        """Whether records are changes of a source, with its order."""
        return self.parser.has_changes

    @property
    def null_erases(self) -> tuple[Field, ...]:
        """The fields for which an explicit null and a missing field differ."""
        return tuple(field for field in self.fields if field.null_erases)

    @property
    def mapped_fields(self) -> tuple[Field, ...]:
        """The fields that are read: those of columns, and those that decide about deletes and truncates."""
        paths = (rule.path for rule in (self.deletes, self.truncates) if rule and rule.path)
        return (*self.fields, *(Field("", ".".join(path), "STRING", False, None, None, None, path) for path in paths))

    @property
    def flags(self) -> tuple[str, ...]:
        """The columns that say what a record does to rows, of those in ``staged``; booleans."""
        deleted = (DELETED,) if self.deletes else ()
        return (*deleted, ROWLESS) if self.truncates or self.has_changes else deleted


class Verdict(NamedTuple):
    """The result of decoding a record: its values, or the reason and the detail of its rejection; and if it is late.

    ``deletes``: it deletes the row of its key, and has no other values. ``sequence`` is its place in the order of its
    source, ``snapshot`` that of ``Change``. ``is_rowless``: it is about no row of its own, and has at most a version.
    ``truncates``: it deletes every older row.

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


def column_memory(rules: Rules) -> tuple[int, int]:
    """The bytes of memory in columns at most: of a record, and of each byte of its value."""
    return row_memory(rules.fields), column_memory_per_byte(rules.fields, rules.parser.smallest_item)


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
    all_parts = {**parts, TIME: broker_time}
    try:
        change = read_change(value, rules.parser, rules.fields, delete_rule, rules.truncates)
        parsed = change.fields
        if change.is_rowless:
            row = convert(parsed, rules.truncates.read_fields(rules.fields), all_parts) if rules.truncates else {}
            verdict = Verdict(parsed, row, None, None, False, sequence=change.sequence, is_rowless=True)
            return verdict._replace(truncates=change.truncates)
        memory = rules.parser.memory_of(value)
        counted_memory = memory if may_be_too_large(memory, value, memory_limits or column_memory(rules)) else None
        if delete_rule and change.deletes:
            row = convert(parsed, delete_rule.read_fields(rules.fields), all_parts, counted_memory)
            return Verdict(parsed, row, None, None, False, (), memory, True, change.sequence)
        row = convert(parsed, rules.fields, all_parts, counted_memory)
        is_late = lateness is not None and broker_time is not None and judge_late(row, broker_time, lateness)
        return Verdict(parsed, row, None, None, is_late, (), memory, False, change.sequence, change.snapshot)
    except Rejection as rejection:
        return Verdict(parsed, {}, rejection.reason, rejection.detail, rejection.reason == "late", memory=memory)


def may_be_too_large(memory: int, value: bytes | None, memory_limits: tuple[int, int]) -> bool:
    """Whether a record's columns may take too much, in addition to the ``memory`` of its parsed value."""
    per_row, per_byte = memory_limits
    return memory + per_row + len(value or b"") * per_byte > MAX_RECORD_MEMORY
