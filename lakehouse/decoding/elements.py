"""Judge one record with many rows: the elements of an array in it, each for itself.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from lakehouse.decoding.changes import read_change
from lakehouse.decoding.fields import (
    Field,
    Rejection,
    UnopenedText,
    is_null_text,
    json_kind,
    raise_no_object,
    short_text,
)
from lakehouse.decoding.former_keys import former_rows, require_same_key
from lakehouse.decoding.judge import Verdict
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, too_large_rejection, value_memory
from lakehouse.decoding.record_parts import ELEMENT, INDEX, TIME, VALUE
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.staged import EMPTY, FILTERED
from lakehouse.decoding.times import judge_late
from lakehouse.decoding.values import NO_PARTS, ParsedKey, convert, follow_path, has_explicit_null, parse_part

_NO_ROWS = (
    "a record without rows may truncate the table, and its rows would stay. Leave out with where= what changes no row"
)
_REPEATED = 2  # times the memory of a value that every row has: it is written again for each row

T = TypeVar("T")


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
        if rules.single_object:
            wrap_single_objects(parsed, rules.paths_to_arrays)
        memory = rules.parser.memory_of(value)
        per_row, per_byte = memory_limits or column_memory(rules)
        count, row_memory = count_rows(parsed, rules, all_parts, per_row)
        if memory + row_memory + rules.parser.size_of(value) * per_byte > MAX_RECORD_MEMORY:
            raise too_large_rejection()
    except Rejection as rejection:
        return _of_record(rejection.reason, rejection.detail)._replace(parsed=parsed)
    if not count:
        return _without_rows(parsed, rules)._replace(parsed=parsed)
    judge = _Judge(rules, all_parts)
    groups = groups_of(parsed, rules.paths_to_arrays)
    rows = ((group, place) for group in groups for place in range(len(group.elements)))
    verdicts = [judge(group, place, index) for index, (group, place) in enumerate(rows)]
    return RecordVerdicts(verdicts, True, parsed, memory, row_memory)


def _of_record(reason: str, detail: str | None = None) -> RecordVerdicts:
    return RecordVerdicts([Verdict(None, {}, reason, detail, False)], False)


def _without_rows(parsed: dict[str, Any], rules: Rules) -> RecordVerdicts:
    """The verdict on a record without rows; one without an array may be a truncate, if records delete rows."""
    way = rules.paths_to_arrays[0]
    array, is_missing = follow_path(parsed, way)
    if rules.deletes is None or not (array is None or is_null_text(array)):
        return _of_record(EMPTY)
    place, state = ".".join(way), "is missing" if is_missing else "is null"
    return _of_record("missing_field" if is_missing else "null_field", f"{place!r} {state}: {_NO_ROWS}")


Parents = tuple[dict[str, Any], ...]
"""The fields of the record, then those of the element of each array on the way to the rows."""


class Group(NamedTuple):
    """The elements of one array, of which there is at least one, and the objects around them."""

    parents: Parents
    elements: list[Any]
    former_elements: list[Any]


def groups_of(parsed: dict[str, Any], paths: Sequence[tuple[str, ...]]) -> Iterator[Group]:
    """Yield the arrays whose elements are rows, except those without elements.

    ``paths`` are those of ``Rules.paths_to_arrays``. Nothing is in an array, or in an element around one, that is
    missing or null. Raises ``Rejection`` with the reason ``wrong_type`` if there is something else.
    """
    return _groups_in((parsed,), paths, "")


def _groups_in(parents: Parents, paths: Sequence[tuple[str, ...]], outer_place: str) -> Iterator[Group]:
    """Yield the arrays within the last of the parents; ``outer_place`` is its place, for messages."""
    path, *inner_paths = paths
    place = outer_place + ".".join(path)
    elements = _elements_at(parents[-1], path, place)
    if not inner_paths:
        if elements:
            yield Group(parents, elements, former_rows(parents[-1], path))
        return
    for element in elements:
        if element is None or is_null_text(element):
            continue
        if not isinstance(element, dict):
            raise_no_object(element, f"{place}[]")
        yield from _groups_in((*parents, element), inner_paths, f"{place}[].")


def wrap_single_objects(parsed: dict[str, Any], paths: Sequence[tuple[str, ...]]) -> None:
    """Put each object in the place of an array whose elements are rows into an array; ``paths`` are as above."""
    parents: list[Any] = [parsed]
    for depth, (*outer_names, name) in enumerate(paths, 1):
        for outer_name in outer_names:
            parents = [parent.get(outer_name) for parent in parents if isinstance(parent, dict)]
        parents = [parent for parent in parents if isinstance(parent, dict)]
        if depth < len(paths):
            arrays = [parent.get(name) for parent in parents]
            parents = [element for array in arrays if isinstance(array, list) for element in array]
    for parent in parents:
        if isinstance(parent.get(name), dict):
            parent[name] = [parent[name]]


def _elements_at(parent: dict[str, Any], path: tuple[str, ...], place: str) -> list[Any]:
    value, _ = follow_path(parent, path)
    if value is None or is_null_text(value):
        return []
    if isinstance(value, UnopenedText) and value.rejection:
        raise value.rejection
    if not isinstance(value, list):
        shown_place = repr(place) if place != ELEMENT else "the value"
        raise Rejection("wrong_type", f"{shown_place} is {json_kind(value)} {short_text(value)}, expected an array")
    return value


def count_rows(parsed: dict[str, Any], rules: Rules, parts: Mapping[str, Any], row_memory: int) -> tuple[int, int]:
    """Return the number of rows of a record, and the bytes of memory that they take, ``row_memory`` each at least.

    Raises like ``groups_of``.
    """
    levels, count, memory = rules.outer_levels, 0, 0
    repeated_memory = _PerParent(lambda level, parent: _repeated_memory(parent, levels[level], parts))
    for parents, elements, _ in groups_of(parsed, rules.paths_to_arrays):
        count += len(elements)
        memory += len(elements) * (row_memory + sum(repeated_memory(parents)))
    return count, memory


def _repeated_memory(parent: dict[str, Any], fields: Iterable[Field], parts: Mapping[str, Any]) -> int:
    """Bytes of memory that each row takes for the values that all rows within an object have."""
    return sum(_value_memory(parent, parts, field) for field in fields) * _REPEATED


def _value_memory(parent: dict[str, Any], parts: Mapping[str, Any], field: Field) -> int:
    """The memory of the value of a field; nothing if there is none, or if every row is rejected because of it."""
    try:
        if field.part != VALUE:
            part = parts.get(field.part)
            raw = parse_part(part, field) if isinstance(part, ParsedKey) else part
        else:
            raw, is_missing = follow_path(parent, field.names)
            raw = follow_path(parent, field.former)[0] if is_missing and field.former else raw
        return len(raw) if isinstance(raw, bytes) else value_memory(raw, field)
    except Rejection:
        return 0


class _PerParent(Generic[T]):
    """What is made once of each object around rows, by its level, and used for all rows within it."""

    def __init__(self, make: Callable[[int, dict[str, Any]], T]) -> None:
        self._make = make
        self._parents: list[dict[str, Any]] = []
        self._results: list[T] = []

    def __call__(self, parents: Parents) -> list[T]:
        """Return what was made of each of the parents."""
        for level, parent in enumerate(parents):
            if level < len(self._parents) and self._parents[level] is parent:
                continue
            self._parents[level:] = [parent]
            self._results[level:] = [self._make(level, parent)]
        return self._results


class _Judge:
    """Judges the elements of one record; what several of them have is read once."""

    def __init__(self, rules: Rules, parts: Mapping[str, Any]) -> None:
        self._rules, self._parts = rules, parts
        self._fields, self._needs_objects = rules.element_fields + rules.index_fields, rules.needs_objects
        self._reads_index = bool(rules.index_fields)
        self._outer = _converted_once(rules.outer_levels, parts)
        self._deletes, self._by_record, self._key_ways = rules.deletes, rules.deletes_by_record, rules.key_ways
        self._delete_fields: tuple[Field, ...] = ()
        if rules.deletes:
            self._delete_fields = rules.deletes.read_fields(self._fields)
            self._outer_of_delete = _converted_once([*map(rules.deletes.read_fields, rules.outer_levels)], parts)

    def __call__(self, group: Group, place: int, index: int) -> Verdict:
        """Judge the element at a place of a group; ``index`` is its place in the record."""
        parents, element = group.parents, group.elements[place]
        row: dict[str, Any] = {}
        parts = {**self._parts, INDEX: index} if self._reads_index else self._parts
        try:
            self._require_object(element)
            fields = {ELEMENT: element}
            if self._deletes and self._deletes.is_delete(parents[0] if self._by_record else fields):
                row = self._outer_of_delete(parents) | convert(fields, self._delete_fields, parts)
                return Verdict(None, row, None, None, False, deletes=True)
            if place < len(group.former_elements):
                require_same_key(group.former_elements[place], element, self._key_ways)
            row = self._outer(parents) | convert(fields, self._fields, parts)
            return Verdict(None, row, None, None, self._is_late(row), self._explicit_nulls(parents, fields))
        except Rejection as rejection:
            row = row if self._rules.lateness and self._rules.lateness.keeps_row else {}
            return Verdict(None, row, rejection.reason, rejection.detail, rejection.reason == "late")

    def _require_object(self, element: Any) -> None:
        if not self._needs_objects or isinstance(element, dict):
            return
        if isinstance(element, UnopenedText) and element.rejection:
            raise element.rejection
        raise Rejection("not_an_object", f"the element is {json_kind(element)}, not an object")

    def _is_late(self, row: dict[str, Any]) -> bool:
        lateness, broker_time = self._rules.lateness, self._parts[TIME]
        return lateness is not None and broker_time is not None and judge_late(row, broker_time, lateness)

    def _explicit_nulls(self, parents: Parents, fields: dict[str, Any]) -> tuple[bool, ...]:
        erasing_fields = self._rules.null_erases
        return tuple([has_explicit_null(parents[f.level] if f.of_parent else fields, f) for f in erasing_fields])


def _converted_once(
    levels: Sequence[tuple[Field, ...]], parts: Mapping[str, Any]
) -> Callable[[Parents], dict[str, Any]]:
    """Return a function that converts the fields of each level once for each parent.

    If they cannot be read, each call raises the ``Rejection``.
    """

    def convert_level(level: int, parent: dict[str, Any]) -> dict[str, Any] | Rejection:
        try:
            return convert(parent, levels[level], parts)
        except Rejection as rejection:
            return rejection

    convert_levels = _PerParent(convert_level)

    def convert_parents(parents: Parents) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for result in convert_levels(parents):
            if isinstance(result, Rejection):
                raise Rejection(result.reason, result.detail)
            row |= result
        return row

    return convert_parents
