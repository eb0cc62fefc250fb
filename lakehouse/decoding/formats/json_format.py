"""JSON: each value is one object in UTF-8.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Parser, Schemas, WriterSchema
from lakehouse.decoding.formats.framing import FRAME_SIZE, framed, unframed
from lakehouse.decoding.memory import JSON_BYTE, json_room
from lakehouse.decoding.records import parse

_ANYTHING = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'  # the declaration is stricter


@dataclass(frozen=True)
class Json(Format):
    """Records are JSON objects in UTF-8, decoded strictly.

    ``framed``: before each stands the id of its schema in a registry, as its clients write it. What the schema says is
    not asked: the declaration is stricter.
    """

    framed: bool = field(default=False, repr=False)
    schema_kind = "JSON"

    @property
    def declared_as(self) -> str:
        """Nothing for plain JSON, which a table has that names no format."""
        return "Json(framed=True)" if self.framed else ""

    @property
    def fingerprint_parts(self) -> tuple[str, ...]:
        """Whether it is framed: tables were declared before that could be said."""
        return ("framed",) if self.framed else ()

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:  # noqa: ARG002 - what they say is not asked
        """Return what parses objects of JSON, behind the id of a schema if it is framed."""
        return FramedJsonParser() if self.framed else JsonParser()

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:  # noqa: ARG002 - as above
        """Return what gives a line its frame, and leaves its bytes as they are."""
        return partial(framed, schema_id) if self.framed else bytes

    def may_read(self, value: bytes) -> bool:
        """Whether a value is an object with a field."""
        try:
            return bool(self.parser()(value))
        except Rejection:
            return False

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:  # noqa: ARG002 - whatever is declared
        """A schema of any object: the declaration is stricter."""
        return _ANYTHING


class JsonParser(Parser):
    """Parses objects of JSON, strictly."""

    memory_by_byte = JSON_BYTE
    smallest_item = 2
    is_json = True

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one object, with numbers exactly as written."""
        return parse(value)

    def memory_of(self, value: bytes | None) -> int:
        """Bytes of memory that a value takes at most, by what stands in it if it is long."""
        return json_room(value or b"")


class FramedJsonParser(JsonParser):
    """The same behind the id of a schema."""

    is_json = False

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one object behind the id of a schema."""
        _, written = unframed(value)
        return parse(written[FRAME_SIZE:])
