"""Compressed values: each is decompressed, and then a value of another format.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import (
    NO_SCHEMAS,
    Format,
    Path,
    RegisteredSchema,
    SchemaField,
    Schemas,
    WriterSchema,
)
from lakehouse.decoding.formats.framing import FRAME_SIZE
from lakehouse.decoding.formats.json.format import JsonParser
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.unpacking.compression import INVALID_COMPRESSION, Codec, compress, decompressor
from lakehouse.decoding.formats.unpacking.parser import UnpackingParser

_MAX_SAMPLE = 64 * 1000 * 1000  # bytes of values that show their format
_OF_WRITTEN = (
    "framed",
    "schema_kind",
    "needs_schemas",
    "typed",
    "is_text",
    "may_be_arrays",
    "has_changes",
    "documents",
    "accepted_snapshot",
    "names_records",
    "not_finite",
    "duplicate_names",
    "in_base64",
)


@dataclass(frozen=True)
class Compressed(Format):
    """Values of the format ``written``, each compressed by ``codec`` as one stream.

    The id of a schema in front of a framed value is not compressed.
    """

    written: Format = field()  # without a default, although the class above has a value
    codec: Codec
    reasons = (INVALID_COMPRESSION,)

    def __post_init__(self) -> None:
        """Take over what the format inside determines."""
        if isinstance(self.written, Format):
            taken_values = {name: getattr(self.written, name) for name in _OF_WRITTEN}
            for name, value in {**taken_values, "reasons": (INVALID_COMPRESSION, *self.written.reasons)}.items():
                object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """That of the format inside."""
        return self.written.name

    @property
    def declared_as(self) -> str:
        """The format with the format inside."""
        return f'Compressed({self.written.declared_as or repr(self.written)}, "{self.codec}")'

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the format inside."""
        if isinstance(self.written, Compressed):
            yield "format Compressed contains another Compressed", "Name the format of the decompressed values."
        else:
            yield from self.written.problems()

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser that decompresses values first."""
        return UnpackingParser(self.written.parser(schemas), decompressor(self.codec), framed=self.framed)

    def unpack_all(self, values: Iterable[bytes]) -> list[bytes | None]:
        """The values that can be decompressed; the first ones of many large values."""
        parser = UnpackingParser(JsonParser(), decompressor(self.codec), framed=self.framed)
        unpacked_values: list[bytes | None] = []
        size = 0
        for value in values:
            with suppress(Rejection):
                unpacked_values.append(parser.unpack(value))
                size += len(unpacked_values[-1] or b"")
            if size > _MAX_SAMPLE:
                break
        return unpacked_values

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a writer of the format inside that compresses what it writes."""
        write, frame_size = self.written.writer(schema_id, schema), FRAME_SIZE if self.framed else 0

        def write_compressed(line: bytes) -> bytes:
            value = write(line)
            return value[:frame_size] + compress(value[frame_size:], self.codec)

        return write_compressed

    def notes(self, values: Sequence[bytes]) -> Iterator[str]:
        """Yield why it was recognised, and what the format inside says."""
        yield f"The values begin with the bytes of {self.codec}, so they are decompressed."
        yield from self.written.notes(values)

    def is_made_from(self, schema: WriterSchema, registered: RegisteredSchema) -> bool:
        """Whether a schema certainly means what a registered one does, for the format inside."""
        return self.written.is_made_from(schema, registered)

    def with_text_numbers(self) -> "Compressed":
        """The format for records that write numbers as texts."""
        return replace(self, written=self.written.with_text_numbers())

    def with_null_numbers(self) -> "Compressed":
        """The format for records with NaN or infinities."""
        return replace(self, written=self.written.with_null_numbers())

    def for_schemas(self, schemas: Schemas) -> "Compressed":
        """The format inside with the options that records of these schemas need."""
        return replace(self, written=self.written.for_schemas(schemas))

    def used_schemas(self, values: Iterable[bytes | None], schemas: Schemas) -> Sequence[WriterSchema]:
        """The schemas of the types of records that values have."""
        return self.written.used_schemas(self.unpack_all(filter(None, values)), schemas)

    def schema_fields(self, schemas: Iterable[WriterSchema], limit: int) -> Mapping[Path, SchemaField] | None:
        """The fields that schemas describe."""
        return self.written.schema_fields(schemas, limit)
