"""The records of one type, among records of several types: those that meet a condition from the command line."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple, TypeVar

from lakehouse.declaration.delete_conditions import FieldIs, HeaderIs
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.record_filter import RecordFilter

_HEADER = "header:"
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
