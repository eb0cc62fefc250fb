"""The rules by which the records of a table are judged.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakehouse.decoding.deletes import DeleteRule
from lakehouse.decoding.fields import Field, Place, Steps, paths_to_arrays
from lakehouse.decoding.formats.json.format import JsonParser
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.memory import column_memory_per_byte, row_memory
from lakehouse.decoding.opened_texts import with_opened_texts
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.record_keys import KeyParser
from lakehouse.decoding.record_parts import ELEMENT, INDEX, KEY, PARSED_KEY, TOPIC, UNMAPPED, VALUE
from lakehouse.decoding.staged import DELETED, ROUNDED, ROWLESS
from lakehouse.decoding.times import Lateness
from lakehouse.decoding.unmapped_values import TakenFields, left_values


class Rules(NamedTuple):
    """The rules for a record: for each field, for lateness, deletes and truncates, and the parser of its value.

    ``taken_fields`` is what columns take of its fields, if another column takes the rest. ``rows_from`` is the way to
    the array whose elements are rows; ``None`` if the record itself is the row. ``key_parser`` parses the key of a
    record; ``None`` if no column reads a key that is parsed. ``topic`` is the name of the topic of all records, if a
    column reads it. ``single_object``: an object in the place of the array whose elements are rows is its only element.
    ``key`` are the names of the columns of the key.
    """

    fields: tuple[Field, ...]
    lateness: Lateness | None
    parser: Parser = JsonParser()
    deletes: DeleteRule | None = None
    truncates: DeleteRule | None = None
    where: tuple[RecordFilter, ...] = ()
    taken_fields: TakenFields | None = None
    rows_from: Steps | None = None
    key_parser: KeyParser | None = None
    topic: bytes | None = None
    single_object: bool = False
    key: tuple[str, ...] = ()

    def with_parser(self, parser: Parser) -> "Rules":
        """Return the rules for values that another parser parses; it also opens texts on the way to a field."""
        parser = parser.of_arrays(or_objects=self.single_object) if self.are_arrays else parser
        return self._replace(parser=with_opened_texts(parser, self.mapped_fields, self.rows_from))

    def complete_parts(self, parts: dict[str, Any], parsed: Mapping[str, Any]) -> dict[str, Any]:
        """Add what columns read: the topic of a record, its key as it is parsed, what columns leave of its fields."""
        if self.topic is not None:
            parts[TOPIC] = self.topic
        if self.key_parser:
            parts[PARSED_KEY] = self.key_parser(parts.get(KEY))
        if self.taken_fields is not None:
            parts[UNMAPPED] = left_values(parsed, self.taken_fields)
        return parts

    @property
    def has_changes(self) -> bool:
        """Whether records are changes of a source, with its order."""
        return self.parser.has_changes

    @property
    def null_erases(self) -> tuple[Field, ...]:
        """The fields for which an explicit null and a missing field differ."""
        return tuple(field for field in self.fields if field.limits.null_erases)

    @property
    def mapped_fields(self) -> tuple[Field, ...]:
        """The fields that are read: those of columns, and those that decide about deletes, truncates and the table."""
        paths = (rule.path for rule in (self.deletes, self.truncates, *self.where) if rule and rule.path)
        deciding_fields = (
            Field("", "STRING", Place(".".join(path), path, of_parent=path[0] != ELEMENT)) for path in paths
        )
        return (*self.fields, *deciding_fields)

    @property
    def element_fields(self) -> tuple[Field, ...]:
        """The fields that are read from an element that is a row."""
        return tuple(field for field in self.fields if field.place.part == VALUE and not field.place.of_parent)

    @property
    def outer_fields(self) -> tuple[Field, ...]:
        """The fields that are the same for all rows of a record: of its value around them, and of its other parts."""
        return tuple(field for field in self.fields if field.place.part not in (VALUE, INDEX) or field.place.of_parent)

    @property
    def ordered_fields(self) -> tuple[Field, ...]:
        """The fields in the order in which the first that cannot be read rejects a row."""
        if self.rows_from is None:
            return self.fields
        outer_fields = (field for level in self.outer_levels for field in level)
        index_fields = (field for field in self.fields if field.place.part == INDEX)
        return (*outer_fields, *self.element_fields, *index_fields)

    @property
    def outer_levels(self) -> list[tuple[Field, ...]]:
        """The outer fields by their level: of the record, then of the elements of each array on the way to the rows."""
        return [
            tuple(field for field in self.outer_fields if field.place.level == level)
            for level in range(len(self.paths_to_arrays))
        ]

    @property
    def paths_to_arrays(self) -> list[tuple[str, ...]]:
        """The path to each array on the way to the rows, and last to their own."""
        return paths_to_arrays(self.rows_from or ())

    @property
    def are_arrays(self) -> bool:
        """Whether the records themselves are arrays."""
        return self.rows_from is not None and self.rows_from[0] == ELEMENT

    @property
    def deletes_by_record(self) -> bool:
        """Whether a field of the record around its rows decides if all of them are deletes."""
        return self.rows_from is not None and self.deletes is not None and self.deletes.path[:1] != (ELEMENT,)

    @property
    def needs_objects(self) -> bool:
        """Whether the elements that are rows must be objects: a field is read from within them."""
        is_deciding = self.deletes is not None and not self.deletes_by_record and len(self.deletes.path) > 1
        return is_deciding or any(
            len(path) > 1 for field in self.element_fields for path in (field.place.names, field.place.former)
        )

    @property
    def key_ways(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the key within a row, if records delete rows; those of parts of the key that a row has."""
        fields = self.element_fields if self.deletes else ()
        depth = 0 if self.rows_from is None else 1
        return tuple(field.place.names[depth:] for field in fields if field.name in self.key)

    @property
    def flags(self) -> tuple[str, ...]:
        """The columns that say what a record does to rows, of those in ``staged``; booleans."""
        deleted = (DELETED,) if self.deletes else ()
        return (*deleted, ROWLESS) if self.truncates or self.has_changes else deleted

    @property
    def marks(self) -> tuple[str, ...]:
        """These columns, and the one that says whether a decimal lost digits, if the table has any."""
        return (*self.flags, ROUNDED) if self.decimal_names else self.flags

    @property
    def decimal_names(self) -> tuple[str, ...]:
        """The names of the columns that are or contain decimals, and so may round."""
        return tuple(field.name for field in self.fields if "DECIMAL" in field.type)


def column_memory(rules: Rules) -> tuple[int, int]:
    """The bytes of memory in columns at most: of a row, and of each byte of a record's value."""
    fields = rules.fields
    if rules.rows_from is not None:  # values that every row of a record repeats are measured
        fields = tuple(field.in_element() for field in rules.element_fields)
    return row_memory(rules.fields), column_memory_per_byte(fields, rules.parser.smallest_item)
