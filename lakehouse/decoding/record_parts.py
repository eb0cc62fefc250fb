"""The parts of a record that a column can be read from, other than a field of its value or of the row's element.

Of each, ``part`` is the part of the record, and ``shown_name`` is how messages name it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Literal

VALUE, KEY, TIME, HEADER = "value", "key", "time", "header "
FILE_HEADER = "file"
"""The header with the path of the file, of a record from a file."""
FAULT_HEADER = "lakehouse-fault"
"""The header that says why a file cannot be read further, of the record without a value in place of the rest."""
PARSED_KEY = "parsed key"
"""The key as it was parsed, once for all columns that read it."""
SCHEMA = "schema"
"""The schema that wrote the value, by which ``where`` may decide."""
TOPIC = "topic"
"""The name of the topic of the record, in UTF-8."""
INDEX = "index"
"""The place of an element among those of its record."""
UNMAPPED = "unmapped"
"""What columns leave of the fields of the value."""
ITEMS = "[]"
"""The end of a name on the way to the array of the rows, if each item of an array of this name is on that way."""
ELEMENT = ""
"""The first name of the path to a field of an element, and the name of a record that is an array."""
KeyEncoding = Literal[
    "text", "any_text", "big_endian", "json", "framed_json", "avro", "protobuf", "window_start", "window_end"
]
PARSED_ENCODINGS = ("json", "framed_json", "avro", "protobuf")
"""Those of keys that are parsed once, for all columns that read them."""
TYPED_ENCODINGS = ("avro", "protobuf")
"""Those of keys that are decoded by schemas of a registry, which give types to their values."""

WINDOW_TIMES = ("window_start", "window_end")
"""Those that are a time of the window after a key."""
KeyWindow = Literal["time", "session"]
"""What Kafka Streams and ksqlDB write after a key: the start of a window, or the end and the start of a session."""


@dataclass(frozen=True)
class RecordKey:
    """The key of the record; null if the record has none. A BINARY column has its bytes as they are.

    ``written`` is its encoding. ``text`` is UTF-8; a control character in a STRING then rejects the record, since
    binary keys often are valid UTF-8. ``any_text`` is UTF-8 with control characters. ``big_endian`` is the four bytes
    of an INT or the eight bytes of a BIGINT, which is how Kafka's serializers write whole numbers. ``json`` is JSON:
    an object in which ``path`` leads to the value, or without a path the value alone. ``framed_json``, ``avro`` and
    ``protobuf`` have the id of a schema in front, as clients of a schema registry write keys: before JSON, which is
    then read like ``json``, and before Avro and Protobuf, which are read by that schema. A Protobuf key has a path.
    ``window``: after the key are the bytes of a window, as Kafka Streams and ksqlDB write it. ``window_start`` and
    ``window_end`` are the times of that window: a TIMESTAMP. Only a session has an end.
    """

    written: KeyEncoding = "text"
    path: str | Sequence[str] = ()
    window: KeyWindow | None = None

    def __repr__(self) -> str:
        """Return the key as it is declared."""
        options = [] if self.written == "text" and not self.names else [repr(self.written)]
        options += [repr(self.path if isinstance(self.path, str) else self.names)] if self.names else []
        options += [f"window={self.window!r}"] if self.window else []
        return f"RecordKey({', '.join(options)})"

    @property
    def key_window(self) -> KeyWindow | None:
        """The window that the key must have at its end; of a time of a window, the one that has this time."""
        if self.written in WINDOW_TIMES:
            return "session" if self.written == "window_end" else "time"
        return self.window

    @property
    def names(self) -> tuple[str, ...]:
        """The path within the key."""
        return (self.path,) if isinstance(self.path, str) else tuple(self.path)

    @property
    def part(self) -> str:
        """The part of the record."""
        return PARSED_KEY if self.written in PARSED_ENCODINGS else KEY

    @property
    def shown_name(self) -> str:
        """How messages name the part."""
        return f"{'.'.join(self.names)} in the key of the record" if self.names else "key of the record"


@dataclass(frozen=True)
class RecordHeader:
    """The newest header with a name, as text in UTF-8, or its bytes in a BINARY; null if there is no such header."""

    name: str

    @property
    def part(self) -> str:
        """The part of the record."""
        return f"{HEADER}{self.name}"

    @property
    def shown_name(self) -> str:
        """How messages name the part."""
        return f"header {self.name}"


@dataclass(frozen=True)
class BrokerTime:
    """When the broker received the record, by the broker's clock: a TIMESTAMP."""

    part: ClassVar = TIME
    shown_name: ClassVar = "broker time"


@dataclass(frozen=True)
class TopicName:
    """The name of the topic that contains the record: a STRING, never null."""

    part: ClassVar = TOPIC
    shown_name: ClassVar = "name of the topic"


@dataclass(frozen=True)
class UnmappedFields:
    """The fields of the value that no column reads, as the text of one JSON object; null if there are none."""

    part: ClassVar = UNMAPPED
    shown_name: ClassVar = "unmapped fields"


@dataclass(frozen=True)
class ValueOrObject:
    """A field that is a value in some records, and in others an object that contains the value.

    ``source`` is the name of the field, or the path to it, and ``inner`` that of the value within the object:
    ``ValueOrObject("customer", "id")``. An object without that field rejects the record.
    """

    source: str | Sequence[str]
    inner: str | Sequence[str]

    @property
    def whole_path(self) -> tuple[str, ...]:
        """The names that lead to the field."""
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the value if the field is an object."""
        return (*self.whole_path, *((self.inner,) if isinstance(self.inner, str) else self.inner))


@dataclass(frozen=True)
class Cut:
    r"""A part of the text in a field; ``source`` is its name, or the path to it.

    ``part`` is a regular expression of RE2 that matches the whole text: its group with the name of the column is the
    part, such as ``(?P<status>\d+)``. Or it is two places: ``(0, 6)`` is ``text[0:6]``, without white space around it.
    """

    source: str | Sequence[str]
    part: str | tuple[int, int]

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the field."""
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)


@dataclass(frozen=True)
class ParentField:
    """A field of the record around a row, in a table with ``rows_from``: its name, or the path from the record's top.

    Every row of a record has the same value. If ``rows_from`` leads through other arrays, such as ``"orders[]"``, a
    path that begins like it leads to a field of the element around the row: ``("orders[]", "id")``.
    """

    source: str | Sequence[str]

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the field, from the record's top."""
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)


@dataclass(frozen=True)
class Element:
    """The element that is a row, as a whole, in a table with ``rows_from``: for elements that are not objects."""


@dataclass(frozen=True)
class ElementIndex:
    """The place of the element that is a row among all of its record, from 0: an INT or a BIGINT, never null.

    In arrays in arrays, the elements of the record are counted through.
    """

    part: ClassVar = INDEX
    shown_name: ClassVar = "place of the element"


def steps_to_rows(path: Sequence[str]) -> tuple[str | None, ...]:
    """The way to the array whose elements are rows, with ``None`` for each item of an array on it."""
    *outer_names, name = path
    return (*steps_in(outer_names), name)


def steps_in(path: Sequence[str]) -> tuple[str | None, ...]:
    """A path of names with ``None`` for each item of an array, which is the end of a name."""
    steps = [(name.removesuffix(ITEMS), None) if name.endswith(ITEMS) else (name,) for name in path]
    return tuple(chain.from_iterable(steps))


def shared_way(path: Sequence[str], rows_path: Sequence[str]) -> tuple[int, int]:
    """How many names, and how many arrays, a path has in common with that to the rows, up to the last common array."""
    depth = level = 0
    for index, (name, outer) in enumerate(zip(path, rows_path[:-1], strict=False)):
        if name != outer:
            break
        if outer.endswith(ITEMS):
            depth, level = index + 1, level + 1
    return depth, level
