"""What is next to the fields of records: the condition that chooses some of them, and the headers that all have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from typing import NamedTuple, TypeVar

from lakehouse.declaration.columns import Column
from lakehouse.declaration.conditions import FieldIs, HeaderIs
from lakehouse.declaration.inference.column_lines import column_line
from lakehouse.declaration.inference.proposed_types import type_of, with_type
from lakehouse.declaration.names import column_name
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.record_parts import RecordHeader

_HEADER = "header:"
_HEADERS = "All records have the headers {}. To store them, write {}."
_MAX_HEADERS = 10
_BOOLEANS = {"true": True, "false": False}
AnyRecord = TypeVar("AnyRecord")


class RecordParts(NamedTuple):
    """What decides about the type of a record: its value, and its headers."""

    value: bytes | None
    headers: Mapping[str, bytes]


def read_conditions(text: str) -> list[FieldIs | HeaderIs]:
    """Return the conditions that ``FIELD=VALUE`` or ``header:NAME=VALUE`` may mean; empty if the text is neither.

    A value may be a text, a whole number or a boolean.
    """
    name, _, value = text.partition("=")
    if not value or not name.removeprefix(_HEADER):
        return []
    if name.startswith(_HEADER):
        return [HeaderIs(name.removeprefix(_HEADER), [value])]
    path = name.split(".")
    source = path[0] if len(path) == 1 else tuple(path)
    meanings: list[str | bool | int] = [value]
    if value.isascii() and value.removeprefix("-").isdigit():
        meanings.append(int(value))
    if value in _BOOLEANS:
        meanings.append(_BOOLEANS[value])
    return [FieldIs(source, [meaning]) for meaning in meanings]


def choose_records(
    records: Sequence[AnyRecord],
    parts: Iterable[RecordParts],
    conditions: Iterable[FieldIs | HeaderIs],
    parser: Parser,
) -> tuple[list[AnyRecord], FieldIs | HeaderIs | None]:
    """Return the records that meet the first of the conditions that any record meets; ``None`` if none meets one."""
    all_parts = list(parts)
    for condition in conditions:
        meets = [_meets(condition.record_filter, part, parser) for part in all_parts]
        if any(meets):
            return list(compress(records, meets)), condition
    return [], None


def _meets(record_filter: RecordFilter, parts: RecordParts, parser: Parser) -> bool:
    if not record_filter.is_about_value:
        return record_filter.takes_header(parts.headers.get(record_filter.header_name))
    try:
        return record_filter.takes_fields(parser(parts.value))
    except Rejection:
        return False


def header_notes(headers: Sequence[Mapping[str, bytes]]) -> Iterator[str]:
    """How to store the headers that all records have, if they are texts."""
    names = [name for name in (headers[0] if headers else ()) if all(name in texts for texts in headers)]
    columns = {name: _column_of(name, [texts[name] for texts in headers]) for name in names if column_name(name)}
    lines = {name: column_line(column) for name, column in islice(columns.items(), _MAX_HEADERS) if column}
    if lines:
        yield _HEADERS.format(", ".join(lines), ", ".join(lines.values()))


def _column_of(header: str, values: Sequence[bytes]) -> Column | None:
    """A column for a header; ``None`` if a value is not a text."""
    try:
        type_ = type_of([value.decode() for value in values]) or ("STRING", None)
    except UnicodeDecodeError:
        return None
    name = column_name(header) or header
    return with_type(Column(name, "STRING", "", required=True, source=RecordHeader(header)), type_)
