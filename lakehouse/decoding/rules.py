"""The rules by which the records of a table are judged.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.deletes import DeleteRule
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.json_format import JsonParser
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.memory import column_memory_per_byte, row_memory
from lakehouse.decoding.opened_texts import with_opened_texts
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.record_parts import JSON_KEY, KEY, UNMAPPED
from lakehouse.decoding.staged import DELETED, ROWLESS
from lakehouse.decoding.times import Lateness
from lakehouse.decoding.unmapped_values import TakenFields, left_values
from lakehouse.decoding.values import parse_key


class Rules(NamedTuple):
    """The rules for a record: for each field, for lateness, deletes and truncates, and the parser of its value.

    ``taken_fields`` is what columns take of its fields, if another column takes the rest.
    """

    fields: tuple[Field, ...]
    lateness: Lateness | None
    parser: Parser = JsonParser()
    deletes: DeleteRule | None = None
    truncates: DeleteRule | None = None
    where: RecordFilter | None = None
    taken_fields: TakenFields | None = None

    def with_parser(self, parser: Parser) -> "Rules":
        """Return the rules for values that another parser parses; it also opens texts on the way to a field."""
        return self._replace(parser=with_opened_texts(parser, self.mapped_fields))

    @property
    def reads_json_key(self) -> bool:
        """Whether a column reads a key that is JSON, which is then parsed once."""
        return any(field.part == JSON_KEY for field in self.fields)

    def with_json_key(self, parts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the other parts of a record with its key as it is parsed, if a column reads that."""
        return {**parts, JSON_KEY: parse_key(parts.get(KEY))} if self.reads_json_key else parts

    def with_unmapped(self, parts: Mapping[str, Any], parsed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the other parts of a record with what columns leave of its fields, if a column takes that."""
        return parts if self.taken_fields is None else {**parts, UNMAPPED: left_values(parsed, self.taken_fields)}

    @property
    def has_changes(self) -> bool:
        """Whether records are changes of a source, with its order."""
        return self.parser.has_changes

    @property
    def null_erases(self) -> tuple[Field, ...]:
        """The fields for which an explicit null and a missing field differ."""
        return tuple(field for field in self.fields if field.null_erases)

    @property
    def mapped_fields(self) -> tuple[Field, ...]:
        """The fields that are read: those of columns, and those that decide about deletes, truncates and the table."""
        paths = (rule.path for rule in (self.deletes, self.truncates, self.where) if rule and rule.path)
        return (*self.fields, *(Field("", ".".join(path), "STRING", False, None, None, None, path) for path in paths))

    @property
    def flags(self) -> tuple[str, ...]:
        """The columns that say what a record does to rows, of those in ``staged``; booleans."""
        deleted = (DELETED,) if self.deletes else ()
        return (*deleted, ROWLESS) if self.truncates or self.has_changes else deleted


def column_memory(rules: Rules) -> tuple[int, int]:
    """The bytes of memory in columns at most: of a record, and of each byte of its value."""
    return row_memory(rules.fields), column_memory_per_byte(rules.fields, rules.parser.smallest_item)
