"""Which records of a topic belong to a table: those whose field or header has one of some values.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.deletes import DeleteValue, deciding_value, has_value
from lakehouse.decoding.fields import is_null_text
from lakehouse.decoding.record_parts import ELEMENT, HEADER, SCHEMA, VALUE


class RecordFilter(NamedTuple):
    """The rule by which a record belongs to a table.

    ``part`` is the part of the record that decides: a header, the name of its schema, or a field of the value at
    ``path``; of an element of an array if the path begins with ``ELEMENT``. A record belongs to the table if that has
    one of ``values``, and not if it is missing or null. Without values, a field need only be present and not null.
    """

    part: str
    path: tuple[str, ...]
    values: tuple[DeleteValue, ...]

    @property
    def is_about_value(self) -> bool:
        """Whether a field of the value decides, so that the value must be parsed first."""
        return self.part == VALUE and not self.is_about_element

    @property
    def is_about_element(self) -> bool:
        """Whether a field of each element decides if it is a row."""
        return self.path[:1] == (ELEMENT,)

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
        if self.values:
            return has_value(parsed, self.path, self.values)
        value = deciding_value(parsed, self.path)
        return value is not None and not is_null_text(value)
