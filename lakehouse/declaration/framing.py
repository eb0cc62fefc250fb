"""What stands before a value that was written with a schema registry: a zero byte, and the id of its schema.

Pure and self-contained (the standard library only), as ``avro``.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from lakehouse.declaration.avro import Reader, WriterSchema, reader_of
from lakehouse.declaration.avro_nodes import Named
from lakehouse.declaration.fields import Rejection
from lakehouse.declaration.records import parse, require_value
from lakehouse.declaration.room import json_room
from lakehouse.declaration.vocabulary import Avro, Json

Parse = Callable[[bytes | None], dict[str, Any]]
"""What makes fields of the bytes of a record's value, or raises ``Rejection``."""
_FRAME, _SIZE = ">BI", 5


class Schemas(NamedTuple):
    """Writers' schemas by their ids: those that are known, and why others cannot be used."""

    known: Mapping[int, WriterSchema]
    unusable: Mapping[int, str]


NO_SCHEMAS = Schemas({}, {})


def parser_of(form: Json | Avro, schemas: Schemas = NO_SCHEMAS) -> Parse | None:
    """Return what parses the values of a format; ``None`` for plain JSON, which others than ours parse too."""
    if isinstance(form, Avro):
        return AvroParser(schemas)
    return _parse_framed if form.framed else None


def form_of(values: Iterable[bytes | None]) -> Json | Avro:
    """The format of most of these values, as their bytes tell it: Avro is what has an id before it and is no JSON."""
    there = [value for value in values if value]
    held = [value[_SIZE:] for value in there if value[0] == 0 and len(value) > _SIZE]
    if len(held) * 2 <= len(there):
        return Json()
    return Json(framed=True) if sum(map(_is_object, held)) * 2 > len(held) else Avro()


def _is_object(text: bytes) -> bool:
    try:
        return bool(parse(text))
    except Rejection:
        return False


def unframed(value: bytes | None) -> tuple[int, bytes]:
    """The id of a value's schema, and the value with it, as it came.

    Raises ``Rejection`` with one of the reasons ``tombstone``, ``empty_value``, ``wrong_magic`` and ``truncated``.
    """
    value = require_value(value)
    if value[0] != 0:
        raise Rejection("wrong_magic", f"the first byte is {value[0]}, and 0 before what a schema registry knows")
    if len(value) < _SIZE:
        raise Rejection("truncated", f"the record ends after {len(value)} bytes, within the id of its schema")
    _, schema_id = struct.unpack_from(_FRAME, value)
    return schema_id, value


def framed(schema_id: int, value: bytes) -> bytes:
    """Return a value with the id of its schema before it."""
    return struct.pack(_FRAME, 0, schema_id) + value


def _parse_framed(value: bytes | None) -> dict[str, Any]:
    _, held = unframed(value)
    return parse(held[_SIZE:])


class AvroParser:
    """Parses by schemas; a reader is made of one when the first record names it: most of many are never met.

    ``made`` are the bytes of memory of what the newest record became; of one that is rejected, none.
    """

    made = 0

    def __init__(self, schemas: Schemas) -> None:
        self._readers: dict[int, tuple[Reader, Named]] = {}
        self._known, self._unusable = schemas.known, dict(schemas.unusable)

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse the value of a record, the id of its schema before it."""
        self.made = 0
        schema_id, held = unframed(value)
        read, named = self._readers.get(schema_id) or self._reader(schema_id)
        parsed = read(held, _SIZE)
        self.made = named.made
        return parsed

    def _reader(self, schema_id: int) -> tuple[Reader, Named]:
        if schema_id in self._known and schema_id not in self._unusable:
            named = Named()
            try:
                return self._readers.setdefault(schema_id, (reader_of(self._known[schema_id], named), named))
            except Rejection as rejection:
                self._unusable[schema_id] = rejection.detail
        if schema_id in self._unusable:
            raise Rejection("unusable_schema", f"schema {schema_id}: {self._unusable[schema_id]}")
        raise Rejection("unknown_schema", f"schema {schema_id} is not known")


def made_by(parse: Parse | None, value: bytes | None) -> int:
    """Bytes of memory that a value became that was parsed just now, at most."""
    return parse.made if isinstance(parse, AvroParser) else json_room(value or b"")
