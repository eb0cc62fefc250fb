"""The base class of what parses the values of records, and what a record of a change stream says.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Field
from lakehouse.decoding.json_parsing import STRICT, JsonOptions
from lakehouse.decoding.memory import JSON_MEMORY_PER_BYTE


class Change(NamedTuple):
    """What a record of a change stream says about a row of its source.

    ``fields`` are the values of the row by name; of a delete, at least those of its key. ``sequence`` is the place of
    the change in the order of the source. ``snapshot``: not ``None`` if the source sent the row as it was at that
    place, not a change of it: ``WHOLE``, ``LAST`` or ``PART`` of ``staged``. ``unavailable`` names the fields whose
    value the source did not send because it did not change; they are not in ``fields``. ``is_rowless``: the record is
    about no row of its own. It is the tombstone after a delete, or it deletes every older row: ``truncates``.
    ``origin`` is a number for the part of the source in which places grow, if it has several: the log of one server.
    ``sides`` are the values of the row before and after an update as the source sent them, if it sent both.
    """

    fields: dict[str, Any]
    deletes: bool = False
    sequence: int | None = None
    snapshot: str | None = None
    unavailable: frozenset[str] = frozenset()
    is_rowless: bool = False
    truncates: bool = False
    origin: int | None = None
    sides: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None


ChangeOpener = Callable[[Any, bytes | None], Change]
"""Read what a change says from its content and its bytes; raises ``Rejection`` if it is not valid."""


class Parser(ABC):
    """Parses the values of records, and estimates the memory of parsed values.

    Parsed values are those of JSON, with finite numbers as ``Decimal`` or as Python's numbers. In typed formats they
    can also be bytes, dates and times.

    ``memory_by_byte`` is the memory in bytes that one byte of a value becomes, except for rare values.
    ``smallest_item`` is the minimum size in bytes of an item of an array or a map. ``is_json`` says that each value is
    a JSON object without a frame, so a faster parser may read it first. ``is_packed`` says that values are unpacked
    before they are parsed: see ``unpacking``. ``has_changes`` says that records are changes of a source, which
    ``read_change`` parses. ``json_options`` are those of ``Format``.
    """

    memory_by_byte: int = JSON_MEMORY_PER_BYTE
    smallest_item: int = 1
    is_json: bool = False
    is_packed: bool = False
    has_changes: bool = False
    json_options: JsonOptions = STRICT

    @abstractmethod
    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one value into its fields; raises ``Rejection`` if it is not a valid value of the format."""

    def read_ahead(self, values: Sequence[bytes | None]) -> None:  # noqa: B027 - most parse one at a time
        """Note values that come next, in this order, for a parser that parses many at once more quickly."""

    @property
    def contents(self) -> "Parser":
        """The parser of what is in a value, with its envelope if it is a change."""
        return self

    def change_opener(self, fields: tuple[Field, ...], *, is_exact: bool = True) -> ChangeOpener:
        """Return what opens the envelope of a change; ``fields`` are those that are read.

        Unless ``is_exact``, a native parser made the content: the opener rejects what it cannot be certain of.
        """
        raise NotImplementedError

    def read_change(self, value: bytes | None, fields: tuple[Field, ...]) -> Change:
        """Parse one change into what it says about a row."""
        content = None if value is None else self.contents(value)
        return self.change_opener(fields)(content, value)

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most; it is called right after the value is parsed."""
        return len(value or b"") * self.memory_by_byte

    def schema_name(self, value: bytes) -> str | None:  # noqa: ARG002 - for formats with schemas that have names
        """The name that the schema of a value gives its record; raises ``Rejection`` if there is no such schema."""
        return None

    @property
    def inner(self) -> "Parser":
        """The parser of unpacked values."""
        return self

    def with_inner(self, inner: "Parser") -> "Parser":
        """Return a parser that unpacks values in the same way, then parses them with another parser."""
        return inner

    def of_arrays(self, *, or_objects: bool = False) -> "Parser":  # noqa: ARG002 - of formats with arrays
        """Return the parser for records that are arrays, each of which is then the field ``ELEMENT``.

        With ``or_objects``, objects that follow one another are an array, too.
        """
        return self

    def unpack(self, value: bytes | None) -> bytes | None:
        """Return a value as ``inner`` parses it; raises ``Rejection`` if it cannot be unpacked."""
        return value
