"""A format that lakehouse does not include: a module that a project adds."""

# ruff: noqa: ARG002 - the records have no schema id

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakehouse.declaration import Rejection
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Schemas, UnwritableError, WriterSchema
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.records import parse, require_value


@dataclass(frozen=True)
class Barred(Format):
    """Values of fields in the order of ``names``, separated by bars; an empty text is a missing value."""

    names: tuple[str, ...]

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        return BarredParser(self.names)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        return self._encode

    def _encode(self, line: bytes) -> bytes:
        try:
            fields = parse(line)
        except Rejection as rejection:
            raise UnwritableError(rejection.detail) from None
        return "|".join(str(fields.get(name, "")) for name in self.names).encode()


class BarredParser(Parser):
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        texts = require_value(value).decode(errors="replace").split("|")
        if len(texts) != len(self._names):
            raise Rejection("truncated", f"{len(texts)} of {len(self._names)} values")
        fields = zip(self._names, texts, strict=True)
        return {name: Decimal(text) if text.isdecimal() else text for name, text in fields if text}
