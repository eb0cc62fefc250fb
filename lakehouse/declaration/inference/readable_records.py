"""Records as objects: those that can be read, those that a condition chooses, and the headers that all of them have."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress, islice
from typing import Any, NamedTuple, TypeVar

from lakehouse.declaration.columns import Column
from lakehouse.declaration.conditions import FieldIs, HeaderIs
from lakehouse.declaration.inference.proposed_types import column_line, type_of, with_type
from lakehouse.declaration.names import column_name
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.json_parsing import parse_json
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.record_parts import ELEMENT, RecordHeader

_MAX_LENGTH = 40  # bytes of a record that are shown
_MAX_REASONS, _MAX_REASON = 3, 100  # reasons that are shown, and letters of each
_LEAST_SHARE = 0.05  # of the records that are not objects; fewer are odd ones
_ENCODINGS = "windows-1252", "latin-1"  # the second has every byte
_HEADER = "header:"
_HEADERS = "All records have the headers {}. To store them, write {}."
_MAX_HEADERS = 10
_BOOLEANS = {"true": True, "false": False}
AnyRecord = TypeVar("AnyRecord")


class ReadableRecords(NamedTuple):
    """The readable values as objects, the reason for each of the others, and the format that reads them.

    ``are_arrays``: the values are arrays, and the objects are their elements. ``has_single_objects``: some are not
    arrays, but a single object, or a text that holds either.
    """

    objects: list[dict[str, Any]]
    refusals: list[str]
    form: Format
    are_arrays: bool = False
    has_single_objects: bool = False


def read_objects(values: Sequence[bytes | None], form: Format, schemas: Schemas) -> ReadableRecords:
    """Read values with a format; if some have NaN or infinities, with its form that reads them as null."""
    parser = form.parser(schemas)
    objects, refusals = [], []
    for value in values:
        try:
            objects.append(form.as_json(parser(value)))
        except Rejection as rejection:
            if rejection.reason == "not_finite" and form.with_null_numbers() != form:
                return read_objects(values, form.with_null_numbers(), schemas)
            refusals.append(rejection.detail)
        except RecursionError:
            refusals.append("nested too deeply")
    if not objects:
        return _read_arrays(values, refusals, form)
    mixed_records = _read_mixed(values, refusals, form) if refusals and form.may_be_arrays else None
    return mixed_records or ReadableRecords(objects, refusals, form)


def most_common_reasons(refusals: Sequence[str]) -> str:
    """The most common reasons in words, each with its count if there are several; empty without any."""
    counts = Counter(reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}..." for reason in refusals)
    if len(counts) == 1:
        return next(iter(counts))
    omitted_text = f" and {len(counts) - _MAX_REASONS} more reasons" if len(counts) > _MAX_REASONS else ""
    reasons = (f"{reason} ({count:,})" for reason, count in counts.most_common(_MAX_REASONS))
    return "; ".join(reasons) + omitted_text


def encoding_warnings(values: Sequence[bytes | None], form: Format) -> Iterator[str]:
    """Yield how to read the records that are not UTF-8, if there are any."""
    foreign_values = [value for value in values if value and not _has_encoding(value, "utf-8")]
    encodings = (name for name in _ENCODINGS if all(_has_encoding(value, name) for value in values if value))
    encoded_form = form.with_encoding(next(encodings, _ENCODINGS[-1]))
    if foreign_values and encoded_form != form:
        example = repr(foreign_values[0][:_MAX_LENGTH])
        yield (
            f"{len(foreign_values):,} of {len(values):,} records are not UTF-8, such as {example}: they are rejected."
            f" If all records have another encoding, name it, for example format={encoded_form.declared_as}."
        )


def _has_encoding(value: bytes, encoding: str) -> bool:
    try:
        value.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _read_arrays(values: Sequence[bytes | None], refusals: list[str], form: Format) -> ReadableRecords:
    """Read values as arrays of objects, or else as objects that follow one another; others stay refused."""
    if not form.may_be_arrays:
        return ReadableRecords([], refusals, form)
    objects, other_refusals = list[dict[str, Any]](), list[str]()
    contents = list(_contents_of(values, form))
    follow_another = not any(isinstance(content, list) for content in contents)
    contents = list(_contents_of(values, form, or_objects=True)) if follow_another else contents
    for content, refusal in zip(contents, refusals, strict=True):
        if isinstance(content, list):
            objects += [element for element in content if isinstance(element, dict)]
        else:
            other_refusals.append(refusal)
    are_arrays = bool(objects)
    refusals = other_refusals if objects else refusals
    return ReadableRecords(objects, refusals, form, are_arrays, has_single_objects=are_arrays and follow_another)


def _read_mixed(values: Sequence[bytes | None], refusals: list[str], form: Format) -> ReadableRecords | None:
    """Read values of which some are objects, and others arrays of objects or texts that hold either.

    ``None`` if fewer than one in twenty is such an array or text: then it is an odd record.
    """
    objects, other_refusals, reasons = list[dict[str, Any]](), list[str](), iter(refusals)
    for content in _contents_of(values, form, or_objects=True):
        reason = "" if isinstance(content, dict) else next(reasons, "")
        opened_content = _opened(content, form)
        elements = opened_content if isinstance(opened_content, list) else [opened_content]
        objects += [element for element in elements if isinstance(element, dict)]
        other_refusals += [] if all(isinstance(element, dict) for element in elements) else [reason]
    is_mixed = len(refusals) - len(other_refusals) >= _LEAST_SHARE * len(values)
    records = ReadableRecords(objects, other_refusals, form, are_arrays=True, has_single_objects=True)
    return records if is_mixed and objects else None


def _contents_of(values: Sequence[bytes | None], form: Format, *, or_objects: bool = False) -> Iterator[Any]:
    """The content of each value of any kind; ``None`` if it is not valid."""
    parser = form.parser().of_arrays(or_objects=or_objects)
    for value in values:
        content: Any = None
        with suppress(Rejection, RecursionError):
            content = parser(value)[ELEMENT]
        yield content


def _opened(content: Any, form: Format) -> Any:
    """What a text holds, if that is JSON; any other content as it is."""
    with suppress(Rejection, RecursionError):
        return parse_json(content, form.json_options) if isinstance(content, str) else content
    return content


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
