"""JSON: each value is one object in UTF-8.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Parser, Schemas, WriterSchema
from lakehouse.decoding.formats.framing import FRAME_SIZE, add_frame, split_frame
from lakehouse.decoding.memory import JSON_MEMORY_PER_BYTE, json_memory
from lakehouse.decoding.records import NotFinite, parse

_ANY_OBJECT = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'  # the declaration is stricter


@dataclass(frozen=True)
class Json(Format):
    """Records are JSON objects in UTF-8, decoded strictly.

    ``framed``: each has the id of its schema in front, as clients of a schema registry write it. The schema itself is
    not read: the declaration is stricter. ``not_finite``: ``NaN`` and ``Infinity``, which some programs write although
    JSON does not have them, reject the record, or with ``"null"`` are null.
    """

    framed: bool = field(default=False, repr=False)
    not_finite: NotFinite = field(default="reject", repr=False)
    schema_kind = "JSON"

    def __repr__(self) -> str:
        """Return the format without its frame, which ``fingerprint_parts`` has."""
        return f"Json({self._shown_option})"

    @property
    def _shown_option(self) -> str:
        return "" if self.not_finite == "reject" else f"not_finite={self.not_finite!r}"

    @property
    def declared_as(self) -> str:
        """Empty for the default format of a table: unframed JSON that rejects NaN."""
        options = [*(["framed=True"] if self.framed else []), *([self._shown_option] if self._shown_option else [])]
        return f"Json({', '.join(options)})".replace("'", '"') if options else ""

    @property
    def fingerprint_parts(self) -> tuple[str, ...]:
        """Empty unless framed, so that fingerprints of tables are the same as before ``framed`` existed."""
        return ("framed",) if self.framed else ()

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:  # noqa: ARG002 - JSON is decoded without schemas
        """Return a parser of JSON objects, after a schema id if the format is framed."""
        return FramedJsonParser(self.not_finite) if self.framed else JsonParser(self.not_finite)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:  # noqa: ARG002 - as above
        """Return a function that adds the frame, if the format is framed, and leaves the bytes unchanged."""
        return partial(add_frame, schema_id) if self.framed else bytes

    def may_read(self, value: bytes) -> bool:
        """Whether a value is an object with at least one field."""
        try:
            return bool(self.parser()(value))
        except Rejection:
            return False

    def with_null_numbers(self) -> "Json":
        """The format in which NaN and infinities are null."""
        return replace(self, not_finite="null")

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:  # noqa: ARG002 - the same for all
        """A schema that allows any object: the declaration is stricter."""
        return _ANY_OBJECT


class JsonParser(Parser):
    """Parses JSON objects strictly."""

    memory_by_byte = JSON_MEMORY_PER_BYTE
    smallest_item = 2
    is_json = True

    def __init__(self, not_finite: NotFinite = "reject") -> None:
        self.not_finite: NotFinite = not_finite

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one object, with numbers exactly as written."""
        return parse(value, self.not_finite)

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most; the parts of a long value are counted."""
        return json_memory(value or b"")


class FramedJsonParser(JsonParser):
    """Parses JSON objects that follow a schema id."""

    is_json = False

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one object that follows a schema id."""
        _, framed_value = split_frame(value)
        return parse(framed_value[FRAME_SIZE:], self.not_finite)
