"""How the values of records are written: a module for each format, and the list of them.

``format`` is what every format answers, ``framing`` the id of a schema before a value. ``json_format`` is JSON,
``avro_format`` Avro, whose values ``avro_reader`` reads by a schema (of ``avro_bytes`` and ``avro_nodes``, and what
``avro_logical`` makes of them). ``avro_schemas`` says which schemas are of use, ``avro_declared`` makes one of a
declaration, ``avro_writing`` writes lines by one, and ``avro_fields`` says which columns take what one describes.

To add a format, write a module with a subclass of ``Format`` and list it in ``FORMATS``. No module outside this
package asks which format it is given: it asks the format.
"""

from collections.abc import Iterable, Iterator

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import REASONS
from lakehouse.decoding.formats.avro_format import Avro
from lakehouse.decoding.formats.format import Format
from lakehouse.decoding.formats.framing import has_frame
from lakehouse.decoding.formats.json_format import Json

FORMATS: tuple[Format, ...] = (Json(), Json(framed=True), Avro())
"""The formats that a proposal chooses from; of several that fit, an earlier one comes first."""

_LAST = REASONS.index("late")  # behind it stand reasons that no parser gives
KNOWN_REASONS = (*REASONS[:_LAST], *(reason for form in FORMATS for reason in form.reasons), *REASONS[_LAST:])
"""Every reason to reject a record, those of the listed formats among them."""


def likely_formats(values: Iterable[bytes | None]) -> tuple[Format, ...]:
    """The listed formats that most of these values may be written in, the likeliest first; the first, if none.

    Bytes do not tell apart formats that each need schemas: the kind of the schemas does.
    """
    present = [value for value in values if value]
    framed = [value for value in present if has_frame(value)]
    is_framed = len(framed) * 2 > len(present)
    asked = framed if is_framed else present
    likely = (form for form in FORMATS if form.framed is is_framed)
    return tuple(form for form in likely if sum(map(form.may_read, asked)) * 2 > len(asked)) or FORMATS[:1]


def format_problems(form: Format) -> Iterator[Problem]:
    """What is wrong with a format that a project adds: the rest of the program relies on it."""
    made = getattr(form, "__dataclass_params__", None)
    if made is None or not (made.frozen and made.repr):
        fact = f"format {form.name} is no frozen dataclass"
        yield fact, "Make it one: how it is written tells whether a table is declared otherwise than before."
    if form.needs_schemas and not (form.framed and form.schema_kind):
        fact = f"format {form.name} needs schemas, and has no kind of them, or no id before a value"
        yield fact, "Set framed and schema_kind: an id tells which schema of that kind is asked for."


__all__ = ["FORMATS", "KNOWN_REASONS", "Avro", "Format", "Json", "format_problems", "likely_formats"]
