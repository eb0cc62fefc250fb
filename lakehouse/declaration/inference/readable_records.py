"""The records that a proposal is made from: those that a format can read, as objects."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import Schemas


class ReadableRecords(NamedTuple):
    """The readable values as objects, the reason for each of the others, and the format that reads them."""

    objects: list[dict[str, Any]]
    refusals: list[str]
    form: Format


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
    return ReadableRecords(objects, refusals, form)
