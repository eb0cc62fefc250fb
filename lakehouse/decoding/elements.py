"""Judge one record with many rows: the elements of an array in it, each for itself.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.changes import read_change
from lakehouse.decoding.fields import Field, Rejection, UnopenedText, is_null_text, json_kind, short_text
from lakehouse.decoding.judge import Verdict
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, too_large_rejection, value_memory
from lakehouse.decoding.record_parts import ELEMENT, TIME, VALUE
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.staged import EMPTY, FILTERED
from lakehouse.decoding.times import judge_late
from lakehouse.decoding.values import NO_PARTS, ParsedKey, convert, follow_path, has_explicit_null, parse_part

_REPEATED = 2  # times the memory of a value that every row has: it is written again for each row


class RecordVerdicts(NamedTuple):
    """The verdicts on the rows of a record, in the order of its elements.

    If the record is judged as a whole (``has_elements`` is false), there is one verdict: it is rejected, it belongs to
    another table (``staged.FILTERED``), or its array has no element (``staged.EMPTY``). ``parsed`` and ``memory`` are
    those of ``Verdict``; ``row_memory`` are the bytes of memory of all rows.
    """

    verdicts: list[Verdict]
    has_elements: bool
    parsed: dict[str, Any] | None = None
    memory: int = 0
    row_memory: int = 0


def judge_elements(
    value: bytes | None,
    broker_time: int | None,
    rules: Rules,
    parts: Mapping[str, bytes | None] = NO_PARTS,
    memory_limits: tuple[int, int] | None = None,
) -> RecordVerdicts:
    """Decode the elements of one record strictly, like ``judge``.

    A field of the record around the elements that cannot be read rejects each of them. If the array is missing or null,
    the record has no row.
    """
    parsed: dict[str, Any] | None = None
    all_parts = rules.complete_parts({**parts, TIME: broker_time})
    try:
        change = read_change(value, rules, parts)
        if change is None:
            return _of_record(FILTERED)
        parsed = change.fields
        elements = elements_of(parsed, rules.rows_from or ())
        memory = rules.parser.memory_of(value)
        per_row, per_byte = memory_limits or column_memory(rules)
        row_memory = len(elements) * (per_row + repeated_memory(parsed, rules, all_parts))
        if memory + row_memory + rules.parser.size_of(value) * per_byte > MAX_RECORD_MEMORY:
            raise too_large_rejection()
    except Rejection as rejection:
        return _of_record(rejection.reason, rejection.detail)._replace(parsed=parsed)
    if not elements:
        return _of_record(EMPTY)._replace(parsed=parsed)
    judge = _Judge(rules, parsed, all_parts)
    return RecordVerdicts([judge(element) for element in elements], True, parsed, memory, row_memory)


def _of_record(reason: str, detail: str | None = None) -> RecordVerdicts:
    return RecordVerdicts([Verdict(None, {}, reason, detail, False)], False)


def elements_of(parsed: dict[str, Any], path: tuple[str, ...]) -> list[Any]:
    """Return the elements of the array at a path; none if it is missing or null.

    Raises ``Rejection`` with the reason ``wrong_type`` if there is something else.
    """
    value, _ = follow_path(parsed, path)
    if value is None or is_null_text(value):
        return []
    if isinstance(value, UnopenedText) and value.rejection:
        raise value.rejection
    if not isinstance(value, list):
        place = repr(".".join(path)) if path != (ELEMENT,) else "the value"
        raise Rejection("wrong_type", f"{place} is {json_kind(value)} {short_text(value)}, expected an array")
    return value


def repeated_memory(parsed: dict[str, Any], rules: Rules, parts: Mapping[str, Any]) -> int:
    """Bytes of memory that each row takes for the values that all rows of the record have."""
    memory = 0
    for field in rules.outer_fields:
        raw = _value_or_none(parsed, parts, field)
        memory += len(raw) if isinstance(raw, bytes) else value_memory(raw, field)
    return memory * _REPEATED


def _value_or_none(parsed: dict[str, Any], parts: Mapping[str, Any], field: Field) -> Any:
    """The value of a field; ``None`` if there is none, or if every row is rejected because of it."""
    try:
        if field.part != VALUE:
            part = parts.get(field.part)
            return parse_part(part, field) if isinstance(part, ParsedKey) else part
        raw, is_missing = follow_path(parsed, field.names)
        return follow_path(parsed, field.former)[0] if is_missing and field.former else raw
    except Rejection:
        return None


class _Judge:
    """Judges the elements of one record; what all of them have is read once."""

    def __init__(self, rules: Rules, parsed: dict[str, Any], parts: Mapping[str, Any]) -> None:
        self._rules, self._parsed, self._parts = rules, parsed, parts
        self._fields, self._needs_objects = rules.element_fields, rules.needs_objects
        self._outer = _converted_once(parsed, rules.outer_fields, parts)
        self._delete_fields: tuple[Field, ...] = ()
        if rules.deletes:
            self._delete_fields = rules.deletes.read_fields(self._fields)
            self._outer_of_delete = _converted_once(parsed, rules.deletes.read_fields(rules.outer_fields), parts)

    def __call__(self, element: Any) -> Verdict:
        """Judge one element."""
        try:
            self._require_object(element)
            fields = {ELEMENT: element}
            if self._rules.deletes and self._rules.deletes.is_delete(fields):
                row = self._outer_of_delete() | convert(fields, self._delete_fields, self._parts)
                return Verdict(None, row, None, None, False, deletes=True)
            row = self._outer() | convert(fields, self._fields, self._parts)
            return Verdict(None, row, None, None, self._is_late(row), self._explicit_nulls(fields))
        except Rejection as rejection:
            return Verdict(None, {}, rejection.reason, rejection.detail, rejection.reason == "late")

    def _require_object(self, element: Any) -> None:
        if not self._needs_objects or isinstance(element, dict):
            return
        if isinstance(element, UnopenedText) and element.rejection:
            raise element.rejection
        raise Rejection("not_an_object", f"the element is {json_kind(element)}, not an object")

    def _is_late(self, row: dict[str, Any]) -> bool:
        lateness, broker_time = self._rules.lateness, self._parts[TIME]
        return lateness is not None and broker_time is not None and judge_late(row, broker_time, lateness)

    def _explicit_nulls(self, fields: dict[str, Any]) -> tuple[bool, ...]:
        erasing_fields = self._rules.null_erases
        return tuple([has_explicit_null(self._parsed if f.of_parent else fields, f) for f in erasing_fields])


def _converted_once(
    parsed: dict[str, Any], fields: tuple[Field, ...], parts: Mapping[str, Any]
) -> Callable[[], dict[str, Any]]:
    """Return a function that converts fields once; if they cannot be read, each call raises the ``Rejection``."""
    results: list[dict[str, Any] | Rejection] = []

    def convert_once() -> dict[str, Any]:
        if not results:
            try:
                results.append(convert(parsed, fields, parts))
            except Rejection as rejection:
                results.append(rejection)
        if isinstance(results[0], Rejection):
            raise Rejection(results[0].reason, results[0].detail)
        return results[0]

    return convert_once
