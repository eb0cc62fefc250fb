"""How the values of records are written: one package for each kind of format, and the list of formats.

``format`` defines the base class of formats and ``parser`` that of their parsers, ``framing`` the schema id in front of
a value. ``json`` is JSON, ``json_schema`` checks it by schemas, and ``connect`` is JSON of Kafka Connect. ``avro`` is
Avro, and ``protobuf`` is Protobuf. ``debezium`` are changes of a database, written as JSON or Avro. ``texts`` are
formats that have only texts, such as CSV, logfmt and lines that a regular expression cuts. ``big_endian_format`` are
numbers as bytes. ``compressed_format`` goes around another format: ``unpacking`` decompresses its values.

Formats that have schemas use ``schema_parser``, ``schema_types`` and ``varints``.

To add a format, write a module with a subclass of ``Format`` and list it in ``FORMAT_KINDS``, and in ``FORMATS`` if a
proposal may choose it by reading values. ``lakehouse.declaration`` exports it. The pages of declarations, of Python and
of rejections list it, and ``test_decoding_is_shipped``. No module outside this package checks which format it has: it
asks the format.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import REASONS
from lakehouse.decoding.formats.avro.format import Avro, AvroKey
from lakehouse.decoding.formats.big_endian_format import BigEndian
from lakehouse.decoding.formats.compressed_format import Compressed
from lakehouse.decoding.formats.connect.format import ConnectJson
from lakehouse.decoding.formats.debezium.format import Debezium
from lakehouse.decoding.formats.format import DEFAULT_KIND, Format, RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.framing import has_frame
from lakehouse.decoding.formats.json.format import Json
from lakehouse.decoding.formats.protobuf.format import Protobuf
from lakehouse.decoding.formats.texts.csv import Csv
from lakehouse.decoding.formats.texts.cut_texts import FixedWidth, Regex
from lakehouse.decoding.formats.texts.logfmt import Logfmt
from lakehouse.decoding.formats.texts.recognition import likely_codec, likely_text_formats
from lakehouse.decoding.formats.texts.text import Text
from lakehouse.decoding.record_parts import KeyEncoding

FORMATS: tuple[Format, ...] = (
    Json(),
    Json(framed=True),
    Avro(),
    Protobuf(),
    Debezium(),
    Debezium(documents=True),
    Debezium(Json(framed=True)),
    Debezium(Avro()),
    ConnectJson(),
    Json(in_text=True),
)
"""The formats that a proposal chooses from; if several fit, the first one is chosen."""
FORMAT_KINDS: tuple[type[Format], ...] = (
    *(Json, Avro, Protobuf, Debezium, ConnectJson),
    *(Text, Csv, Logfmt, Regex, FixedWidth, BigEndian, Compressed),
)
"""The classes of formats."""
KEY_FORMATS: Mapping[KeyEncoding, Format] = {"avro": AvroKey(), "protobuf": Protobuf()}
"""The formats of keys that are decoded by schemas of a registry, by the encoding that ``RecordKey`` names."""

_LATE = REASONS.index("late")  # this reason and those after it are not given by parsers
_OF_FORMATS = dict.fromkeys(reason for kind in FORMAT_KINDS for reason in kind.reasons)
KNOWN_REASONS = (*REASONS[:_LATE], *_OF_FORMATS, *REASONS[_LATE:])
"""Every reason to reject a record, including those of the listed formats."""


def likely_formats(values: Iterable[bytes | None]) -> tuple[Format, ...]:
    """The formats that can read most of these values, the likeliest first; the first listed one if none can.

    A change stream, or the envelope of Kafka Connect, is likelier than the format in which it is written. Bytes cannot
    distinguish formats that need schemas; the kind of their schemas can. A format of texts is only likely if no listed
    format fits.
    """
    present_values = [value for value in values if value]
    numbers = BigEndian()
    if any(map(numbers.may_read, present_values)) and all(len(value) == numbers.size for value in present_values):
        return (numbers,)
    framed_values = [value for value in present_values if has_frame(value)]
    is_framed = len(framed_values) * 2 > len(present_values)
    samples = framed_values if is_framed else present_values
    codec = likely_codec(samples, framed=is_framed)
    if codec:
        forms = likely_formats(Compressed(Json(framed=is_framed), codec).unpack_all(samples))
        return tuple(Compressed(form, codec) for form in forms if form.framed is is_framed) or FORMATS[:1]
    candidates = (form for form in FORMATS if form.framed is is_framed)
    fitting_formats = [form for form in candidates if sum(map(form.may_read, samples)) * 2 > len(samples)]
    # first those that narrow another one
    listed_formats = tuple(
        sorted(fitting_formats, key=lambda form: form.needs_schemas or not (form.has_changes or form.narrows_json))
    )
    return listed_formats or (() if is_framed else likely_text_formats(samples)) or FORMATS[:1]


def format_problems(form: Format) -> Iterator[Problem]:
    """Yield what is wrong with a format that a project adds; the rest of the program relies on these rules."""
    dataclass_params = getattr(form, "__dataclass_params__", None)
    if dataclass_params is None or not (dataclass_params.frozen and dataclass_params.repr):
        problem = f"format {form.name} is not a frozen dataclass"
        yield problem, "Make it a frozen dataclass: its repr shows whether the declaration of a table has changed."
    if form.needs_schemas and not (form.framed and form.schema_kind):
        problem = f"format {form.name} needs schemas, but it is not framed or has no schema_kind"
        yield problem, "Set framed and schema_kind: the id in front of a value selects a schema of that kind."
    if form.written is not None:
        yield from format_problems(form.written)
    yield from form.problems()


def writer_schema(
    text: str, references: Sequence[str] = (), kind: str = DEFAULT_KIND, *, of_key: bool = False
) -> WriterSchema:
    """Return a schema in the form that decodes records; ``references`` are the schemas that it refers to.

    Each reference follows those that it refers to itself. ``kind`` is the language of the schema, as registries name
    it: ``AVRO``, ``PROTOBUF`` or ``JSON``. With ``of_key``, it is the schema of a key, which may be no record. Raises
    ``UnusableSchemaError``, a ``ValueError``.
    """
    for form in KEY_FORMATS.values() if of_key else (*FORMATS, Json(framed=True, checked=True)):
        if form.needs_schemas and form.schema_kind == kind:
            return form.writer_schema(RegisteredSchema(text, tuple(references), kind))
    raise UnusableSchemaError(f"{kind[:40]!r} is not a kind of schemas that records are decoded by")


__all__ = [
    "FORMATS",
    "FORMAT_KINDS",
    "KEY_FORMATS",
    "KNOWN_REASONS",
    "Avro",
    "BigEndian",
    "Compressed",
    "ConnectJson",
    "Csv",
    "Debezium",
    "FixedWidth",
    "Format",
    "Json",
    "Logfmt",
    "Protobuf",
    "Regex",
    "Text",
    "format_problems",
    "likely_formats",
    "writer_schema",
]
