"""Which records of a topic belong to a table: those whose field or header has one of some values.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.deletes import DeleteValue, has_value
from lakehouse.decoding.record_parts import HEADER, SCHEMA, VALUE


class RecordFilter(NamedTuple):
    """The rule by which a record belongs to a table.

    ``part`` is the part of the record that decides: a header, the name of its schema, or a field of the value at
    ``path``. A record belongs to the table if that has one of ``values``, and not if it is missing or null.
    """

    part: str
    path: tuple[str, ...]
    values: tuple[DeleteValue, ...]

    @property
    def is_about_value(self) -> bool:
        """Whether a field of the value decides, so that the value must be parsed first."""
        return self.part == VALUE

    @property
    def is_about_schema(self) -> bool:
        """Whether the name of the schema of the value decides."""
        return self.part == SCHEMA

    @property
    def header_name(self) -> str:
        """The name of the header that decides."""
        return self.part.removeprefix(HEADER)

    def takes_header(self, header: bytes | None) -> bool:
        """Whether a record with this header belongs to the table."""
        return header is not None and any(header == str(value).encode() for value in self.values)

    def takes_fields(self, parsed: Mapping[str, Any]) -> bool:
        """Whether a record with these fields belongs to the table; raises ``Rejection`` like ``has_value``."""
        return has_value(parsed, self.path, self.values)
