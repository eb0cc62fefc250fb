"""The records that a proposal is made from: those that a format can read, as objects."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.json_parsing import parse_json
from lakehouse.decoding.record_parts import ELEMENT

_MAX_LENGTH = 40  # bytes of a record that are shown
_MAX_REASONS, _MAX_REASON = 3, 100  # reasons that are shown, and letters of each
_LEAST_SHARE = 0.05  # of the records that are not objects; fewer are odd ones
_ENCODINGS = "windows-1252", "latin-1"  # the second has every byte


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
    """Read values as arrays of objects; those that are none stay refused."""
    if not form.may_be_arrays:
        return ReadableRecords([], refusals, form)
    objects, other_refusals = list[dict[str, Any]](), list[str]()
    for content, refusal in zip(_contents_of(values, form), refusals, strict=True):
        if isinstance(content, list):
            objects += [element for element in content if isinstance(element, dict)]
        else:
            other_refusals.append(refusal)
    return ReadableRecords(objects, other_refusals if objects else refusals, form, are_arrays=bool(objects))


def _read_mixed(values: Sequence[bytes | None], refusals: list[str], form: Format) -> ReadableRecords | None:
    """Read values of which some are objects, and others arrays of objects or texts that hold either.

    ``None`` if fewer than one in twenty is such an array or text: then it is an odd record.
    """
    objects, other_refusals, reasons = list[dict[str, Any]](), list[str](), iter(refusals)
    for content in _contents_of(values, form):
        reason = "" if isinstance(content, dict) else next(reasons, "")
        opened_content = _opened(content, form)
        elements = opened_content if isinstance(opened_content, list) else [opened_content]
        objects += [element for element in elements if isinstance(element, dict)]
        other_refusals += [] if all(isinstance(element, dict) for element in elements) else [reason]
    is_mixed = len(refusals) - len(other_refusals) >= _LEAST_SHARE * len(values)
    records = ReadableRecords(objects, other_refusals, form, are_arrays=True, has_single_objects=True)
    return records if is_mixed and objects else None


def _contents_of(values: Sequence[bytes | None], form: Format) -> Iterator[Any]:
    """The content of each value of any kind; ``None`` if it is not valid."""
    parser = form.parser().of_arrays()
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
