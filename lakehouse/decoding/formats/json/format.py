"""JSON: each value is one object, in UTF-8 or another encoding.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Field, Rejection, json_kind
from lakehouse.decoding.formats.format import (
    NO_SCHEMAS,
    Format,
    Path,
    RegisteredSchema,
    SchemaField,
    Schemas,
    UnusableSchemaError,
    UnwritableError,
    WriterSchema,
    show_options,
)
from lakehouse.decoding.formats.framing import FRAME_SIZE, add_frame, split_frame
from lakehouse.decoding.formats.json_schema.checks import VIOLATION
from lakehouse.decoding.formats.json_schema.schemas import (
    KIND,
    meaning,
    prepare,
    record_check,
    schema_fields,
    writer_schema,
)
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.schema_parser import Reader, SchemaParser
from lakehouse.decoding.formats.unpacking.parser import (
    INVALID_ENCODING,
    UTF_8,
    encode_text,
    encoded_parser,
    encoding_problems,
    is_utf8,
)
from lakehouse.decoding.json_parsing import (
    BYTE_ORDER_MARK,
    STRICT,
    DuplicateNames,
    JsonOptions,
    NotFinite,
    parse_json,
    utf8_text,
)
from lakehouse.decoding.memory import (
    JSON_MEMORY_PER_BYTE,
    MAX_RECORD_MEMORY,
    MemoryCounter,
    json_memory,
    too_large_rejection,
)
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.decoding.records import parse, parse_array, parse_array_or_objects, require_value

_ANY_OBJECT = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'  # the declaration is stricter


@dataclass(frozen=True)
class Json(Format):
    """Records are JSON objects, decoded strictly.

    ``framed``: each has the id of its schema in front, as clients of a schema registry write it. The schema itself is
    not read, unless ``checked``: a record must then also meet the JSON Schema that its id names. ``not_finite``:
    ``NaN`` and ``Infinity``, which some programs write although JSON does not have them, reject the record, or with
    ``"null"`` are null. ``duplicate_names``: two equal names in an object reject the record, or the value after the
    ``"first"`` or the ``"last"`` one counts. ``encoding`` is UTF-8, or an encoding with one byte for each character.
    ``in_text``: each value is a text of JSON that holds the object, written twice. ``in_base64`` is the name of the
    field, or the path to it, whose text holds JSON in base64; ``[]`` at the end of a name means each item of an array.
    """

    framed: bool = field(default=False, repr=False)
    not_finite: NotFinite = field(default="reject", repr=False)
    encoding: str = field(default=UTF_8, kw_only=True)
    in_text: bool = field(default=False, kw_only=True)
    checked: bool = field(default=False, kw_only=True)
    duplicate_names: DuplicateNames = field(default="reject", kw_only=True)
    in_base64: str | Sequence[str] = field(default=(), kw_only=True)
    needs_schemas: bool = field(init=False, repr=False, compare=False)
    schema_kind = KIND
    may_be_arrays = True
    reasons = (INVALID_ENCODING, VIOLATION)

    def __post_init__(self) -> None:
        """Need schemas if records are checked by those that their ids name; make lists and tuples equal."""
        if isinstance(self.in_base64, list):
            object.__setattr__(self, "in_base64", tuple(self.in_base64))
        object.__setattr__(self, "needs_schemas", self.checked and self.framed)

    def __repr__(self) -> str:
        """Return the format without its frame, which ``fingerprint_parts`` has."""
        options = {"not_finite": "reject", "encoding": UTF_8, "in_text": False, "checked": False}
        options |= {"duplicate_names": "reject", "in_base64": ()}
        values = {name: getattr(self, name) for name in options}
        return f"Json({', '.join(f'{name}={value!r}' for name, value in values.items() if value != options[name])})"

    @property
    def declared_as(self) -> str:
        """Empty for unframed JSON in UTF-8, which is the default format of a table."""
        return "" if self == Json() else show_options(self)

    @property
    def fingerprint_parts(self) -> tuple[str, ...]:
        """Empty unless framed, so that fingerprints of tables are the same as before ``framed`` existed."""
        return ("framed",) if self.framed else ()

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of JSON objects, after a schema id if the format is framed."""
        options = self.json_options
        parser: Parser = FramedJsonParser(options) if self.framed else JsonParser(options)
        parser = JsonInTextParser(options, framed=self.framed) if self.in_text else parser
        parser = CheckedJsonParser(schemas, options) if self.checked else parser
        return encoded_parser(parser, self.encoding, framed=self.framed)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a function that adds the frame, if the format is framed; bytes in UTF-8 are unchanged.

        If records are checked, a line that does not meet ``schema`` cannot be written.
        """
        encode: Callable[[bytes], bytes] = bytes if is_utf8(self.encoding) and not self.in_text else self._encode
        if self.checked and schema is not None:
            encode = self._checking(encode, Schemas({schema_id: schema}, {}), schema_id)
        return (lambda line: add_frame(schema_id, encode(line))) if self.framed else encode

    def _checking(self, encode: Callable[[bytes], bytes], schemas: Schemas, schema_id: int) -> Callable[[bytes], bytes]:
        parse_value = CheckedJsonParser(schemas, self.json_options)

        def encode_checked(line: bytes) -> bytes:
            try:
                parse_value(add_frame(schema_id, line))
            except Rejection as rejection:
                raise UnwritableError(f"it does not fit schema {schema_id}: {rejection.detail[:300]}") from None
            return encode(line)

        return encode_checked

    def _encode(self, line: bytes) -> bytes:
        try:
            text = utf8_text(line)
            return encode_text(json.dumps(text, ensure_ascii=False) if self.in_text else text, self.encoding)
        except Rejection as rejection:
            raise UnwritableError(rejection.detail) from None

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the encoding, and with the check by schemas."""
        yield from encoding_problems(self.encoding)
        path = (self.in_base64,) if isinstance(self.in_base64, str) else self.in_base64
        if not all(isinstance(name, str) and name for name in path):
            yield "in_base64 of Json has an empty name", 'Name the field, such as "data_base64", or the path to it.'
        if self.checked and not self.framed:
            yield "Json has checked, but not framed", "Add framed=True: the id in front of a record names its schema."
        if self.checked and self.in_text:
            yield (
                "Json has both checked and in_text",
                "Remove one of them: a schema describes the text, not what is in it.",
            )

    def notes(self, values: Sequence[bytes]) -> Iterator[str]:
        """Yield that a byte order mark is dropped, and that texts are opened."""
        if self.in_text:
            yield "Each value is a text that holds an object: in_text=True. Its producer writes JSON twice."
        if any(value.startswith(BYTE_ORDER_MARK.encode()) for value in values):
            yield "Values begin with a byte order mark of UTF-8. It is dropped."

    def may_read(self, value: bytes) -> bool:
        """Whether a value is an object with at least one field."""
        try:
            return bool(replace(self, checked=False).parser()(value))
        except Rejection:
            return False

    def with_null_numbers(self) -> "Json":
        """The format in which NaN and infinities are null."""
        return replace(self, not_finite="null")

    def with_encoding(self, encoding: str) -> "Json":
        """The format for records in another encoding, unless the id of a schema is in front of them."""
        return self if self.framed else replace(self, encoding=encoding)

    def with_checks(self) -> "Json":
        """The format that checks records by the JSON Schemas that their ids name."""
        return replace(self, checked=self.framed and not self.in_text)

    def writer_schema(self, registered: RegisteredSchema) -> WriterSchema:
        """Return a JSON Schema: in the form that checks records, or only for a proposal."""
        if registered.kind != KIND:
            raise UnusableSchemaError(f"it is a schema of {registered.kind}, not of {self.name}")
        return prepare(registered) if self.checked else writer_schema(registered.text)

    def can_use(self, schema: WriterSchema) -> bool:
        """Whether a schema that was prepared can still check records."""
        try:
            return bool(record_check(schema)) if self.checked else super().can_use(schema)
        except UnusableSchemaError:
            return False

    def fingerprint(self, schema: WriterSchema) -> str:
        """A hash of what a schema means; the spacing of one that checks records does not change it."""
        return meaning(schema) if self.checked else super().fingerprint(schema)

    def schema_fields(self, schemas: Iterable[WriterSchema], limit: int) -> Mapping[Path, SchemaField] | None:
        """The fields that JSON Schemas describe; ``None`` if there are none."""
        return schema_fields(schemas, limit) or None

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:  # noqa: ARG002 - the same for all
        """A schema that allows any object: the declaration is stricter."""
        return _ANY_OBJECT


class JsonParser(Parser):
    """Parses JSON objects strictly."""

    memory_by_byte = JSON_MEMORY_PER_BYTE
    smallest_item = 2
    is_json = True
    _parse = staticmethod(parse)

    def __init__(self, json_options: JsonOptions = STRICT) -> None:
        self.json_options = json_options

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one object, with numbers exactly as written."""
        return self._parse(value, self.json_options)

    def of_arrays(self, *, or_objects: bool = False) -> Parser:
        """Return the parser for records that are arrays, or else objects that follow one another."""
        parser = copy(self)
        parser._parse = parse_array_or_objects if or_objects else parse_array
        return parser

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most; the parts of a long value are counted."""
        return json_memory(value or b"")


class FramedJsonParser(JsonParser):
    """Parses JSON objects that follow a schema id."""

    is_json = False

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one object that follows a schema id."""
        _, framed_value = split_frame(value)
        return self._parse(framed_value[FRAME_SIZE:], self.json_options)


class JsonInTextParser(JsonParser):
    """Parses texts of JSON that hold an object."""

    is_json = False

    def __init__(self, json_options: JsonOptions, *, framed: bool) -> None:
        super().__init__(json_options)
        self._framed = framed
        self._content = b""

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse the object that a text holds."""
        self._content = b""
        value = split_frame(value)[1][FRAME_SIZE:] if self._framed else value
        value = require_value(value)
        if json_memory(value) > MAX_RECORD_MEMORY:
            raise too_large_rejection()
        text = parse_json(utf8_text(value), self.json_options)
        if not isinstance(text, str):
            raise Rejection("wrong_type", f"the value is {json_kind(text)}, expected a text that holds an object")
        self._content = text.encode("utf-8", "surrogatepass")
        return self._parse(self._content, self.json_options)

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most, with its text."""
        return super().memory_of(value) + json_memory(self._content)


class CheckedJsonParser(SchemaParser):
    """Parses JSON objects that meet the schemas that their ids name."""

    memory_by_byte = JSON_MEMORY_PER_BYTE
    smallest_item = 2
    _parse = staticmethod(parse)

    def __init__(self, schemas: Schemas, json_options: JsonOptions) -> None:
        super().__init__(schemas)
        self.json_options = json_options

    def reader_of(self, schema: WriterSchema) -> tuple[Reader, MemoryCounter]:
        """Return a function that parses and checks values."""
        try:
            check = record_check(schema).check
        except UnusableSchemaError as error:
            raise Rejection("unusable_schema", str(error)) from None
        parse_value, options, is_array = self._parse, self.json_options, self._parse is not parse

        def read(data: bytes, start: int) -> dict[str, Any]:
            parsed = parse_value(data[start:], options)
            check(parsed[ELEMENT] if is_array else parsed, len(data))
            return parsed

        return read, MemoryCounter()  # ``memory_of`` estimates it

    def of_arrays(self, *, or_objects: bool = False) -> Parser:
        """Return the parser for records that are arrays, or else objects that follow one another."""
        parser = copy(self)
        parser._parse = parse_array_or_objects if or_objects else parse_array
        parser._readers = {}
        return parser

    def name_in(self, schema: WriterSchema, data: bytes, start: int) -> str:  # noqa: ARG002 - records have no names
        """The kind of the schema: it gives its records no name."""
        return schema.kind

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most; the parts of a long value are counted."""
        return json_memory(value or b"")
