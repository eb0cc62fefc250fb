"""The records that a proposal is made from: those that a format can read, as objects."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.record_parts import ELEMENT

_MAX_LENGTH = 40  # bytes of a record that are shown
_MAX_REASONS, _MAX_REASON = 3, 100  # reasons that are shown, and letters of each
_ENCODINGS = "windows-1252", "latin-1"  # the second has every byte


class ReadableRecords(NamedTuple):
    """The readable values as objects, the reason for each of the others, and the format that reads them.

    ``are_arrays``: the values are arrays, and the objects are their elements.
    """

    objects: list[dict[str, Any]]
    refusals: list[str]
    form: Format
    are_arrays: bool = False


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
    return ReadableRecords(objects, refusals, form) if objects else _read_arrays(values, refusals, form)


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
    parser, objects, other_refusals = form.parser().of_arrays(), list[dict[str, Any]](), list[str]()
    for value, refusal in zip(values, refusals, strict=True):
        elements: Any = None
        with suppress(Rejection, RecursionError):
            elements = parser(value)[ELEMENT]
        if isinstance(elements, list):
            objects += [element for element in elements if isinstance(element, dict)]
        else:
            other_refusals.append(refusal)
    return ReadableRecords(objects, other_refusals if objects else refusals, form, are_arrays=bool(objects))
