"""The rule for one field of a record, and the rejection of a record that breaks it."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, NoReturn

from lakehouse.decoding.record_parts import VALUE, KeyEncoding, KeyWindow
from lakehouse.decoding.written_forms import Written, Zone

SCHEMA_REASONS = ("wrong_magic", "unknown_schema", "unusable_schema")
"""Reasons to reject a record that apply only to values with a schema id in front."""
TIMELESS = "no_such_time"
"""The reason to reject a record whose own time is outside the range of timestamps; decoding never gives it."""
UNREADABLE_FILE = "unreadable_file"
"""The reason to reject the rest of a file that cannot be read further; decoding never gives it."""
BEYOND_HORIZON = "beyond_horizon"
"""The reason to reject a record that a purged delete may have deleted; decoding never gives it."""
REASONS = (
    "tombstone",
    "empty_value",
    "invalid_utf8",
    "truncated",
    "invalid_json",
    "trailing_bytes",
    "duplicate_name",
    "not_finite",
    "not_an_object",
    "missing_field",
    "null_field",
    "wrong_type",
    "wrong_time_format",
    "no_such_date",
    "ambiguous_time",
    "out_of_range",
    "too_many_places",
    "invalid_text",
    "too_large",
    "key_changed",
    *SCHEMA_REASONS,
    "late",
    TIMELESS,
    BEYOND_HORIZON,
    UNREADABLE_FILE,
)
"""Reasons that records of any format may have; ``Format.reasons`` are those of one format alone."""
Epoch = Literal["seconds", "milliseconds", "microseconds", "nanoseconds", "days"]
WHOLE_LIMITS = {"INT": 2**31, "BIGINT": 2**63}


class Place(NamedTuple):
    """Where a field is read from: the part of a record, and the path within it.

    ``source`` is how messages name the field. ``path`` is the sequence of names that lead to a nested field, and
    ``former`` the path that the field had before; it is read if the field is missing. ``whole_depth``: so many names
    of the path lead to the value itself, unless that is an object; 0 if all names do. ``key_encoding`` is the encoding
    of the record key, and ``key_window`` the window at its end.
    ``of_parent``: in a table whose rows are elements of an array, it is read from the record around them. If there are
    arrays on the way to that array, ``level`` is the number of those in whose element the path begins. ``cut`` is the
    part of a text that it is, as in ``Cut``.
    """

    source: str
    path: tuple[str, ...] = ()
    part: str = VALUE
    former: tuple[str, ...] = ()
    whole_depth: int = 0
    key_encoding: KeyEncoding = "text"
    key_window: KeyWindow | None = None
    of_parent: bool = False
    level: int = 0
    cut: str | tuple[int, int] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that lead to the field, from the outermost to its own."""
        return self.path or (self.source,)


class Form(NamedTuple):
    """How records write a value.

    ``written`` is its form, if not JSON's own. ``pattern`` is that of a time as text, ``epoch`` the unit of a time as
    number, and ``zone`` the time zone of texts without an offset, by default UTC. ``null_values`` are texts that mean
    null. ``reads_text``: the format has only texts, so a number, a boolean or a time is read from a text.
    """

    written: Written | None = None
    pattern: str | None = None
    epoch: Epoch | None = None
    zone: Zone | None = None
    null_values: tuple[str, ...] = ()
    reads_text: bool = False


class Limits(NamedTuple):
    """Which values are allowed, and what happens to others.

    ``required``: a missing or null value rejects the record. ``default`` replaces such a value, in the form in which a
    record would contain it. With ``null_erases``, an explicit null and a missing field differ. ``nulls_invalid``: a
    value that cannot be read is NULL. ``rejects_rounding``: a decimal that would lose digits rejects the record.
    """

    required: bool = False
    minimum: Decimal | float | None = None
    maximum: Decimal | float | None = None
    default: str | bool | float | None = None
    null_erases: bool = False
    nulls_invalid: bool = False
    rejects_rounding: bool = False


class Field(NamedTuple):
    """The rule for one field of a record: its name, its type, its place, the form of its values, and their limits.

    ``inner`` are the rules for the items, values or fields of a nested type. ``leaf_count`` is the number of scalar
    values that one value has space for, itself or in a struct, present or not. ``memory_bytes`` is the memory of one
    nested value without the items of its arrays and maps.
    """

    name: str
    type: str
    place: Place
    form: Form = Form()
    limits: Limits = Limits()
    inner: tuple["Field", ...] = ()
    leaf_count: int = 1
    memory_bytes: int = 0

    @property
    def source(self) -> str:
        """How messages name the field."""
        return self.place.source

    def in_element(self) -> "Field":
        """The rule for the field in the element of an array, to which the first name of its path leads."""
        depth = max(self.place.whole_depth - 1, 0)
        place = self.place._replace(path=self.place.names[1:], former=self.place.former[1:], whole_depth=depth)
        return self._replace(place=place)

    def in_texts(self, *, is_text: bool) -> "Field":
        """The rule for the field in a format that has only texts, or in another one."""
        return self._replace(form=self.form._replace(reads_text=is_text))

    def when_required(self) -> "Field":
        """The rule if a missing or null value rejects the record, also if it has a default."""
        return self._replace(limits=self.limits._replace(required=True, default=None))


Step = str | None
"""A field name, or ``None`` for each item of an array or a map."""
Steps = tuple[Step, ...]


def paths_in_value(fields: Iterable[Field], rows_from: Steps | None = None) -> Iterator[tuple[Steps, Field]]:
    """Yield the paths that fields are read from in the value of a record, each with its field; also former paths.

    ``rows_from`` is the path to the array whose elements are rows, if there is one.
    """
    for field in (field for field in fields if field.place.part == VALUE):
        for names in filter(None, (field.place.names, field.place.former)):
            if rows_from is None:
                yield names, field
            else:
                yield (
                    (*_outer_steps(rows_from, field), *names)
                    if field.place.of_parent
                    else (*rows_from, None, *names[1:]),
                    field,
                )


def _outer_steps(rows_from: Steps, field: Field) -> Steps:
    """The steps to the object in which the path of a field of a parent begins."""
    ends = [0, *(place + 1 for place, step in enumerate(rows_from) if step is None)]
    return rows_from[: ends[field.place.level]]


def paths_to_arrays(rows_from: Steps) -> list[tuple[str, ...]]:
    """The path to each array on the way to the rows, in the element of the one before; that of the rows is the last."""
    paths: list[tuple[str, ...]] = [()]
    for step in rows_from:
        if step is None:
            paths.append(())
        else:
            paths[-1] += (step,)
    return paths


class UnrepresentableValue(NamedTuple):
    """A number or a time that no type can represent, as its text. It does no harm in a field that no column reads."""

    text: str

    def __str__(self) -> str:
        return self.text


class UnopenedText(str):
    """A text that begins like JSON and holds neither an object nor an array: null, or why it is not valid.

    A column that reads a field in it gets null, or rejects the record.
    """

    __slots__ = ("rejection",)

    def __new__(cls, text: str, rejection: "Rejection | None") -> "UnopenedText":
        """Return the text with the rejection; ``None`` if it is null."""
        unopened_text = super().__new__(cls, text)
        unopened_text.rejection = rejection
        return unopened_text

    rejection: "Rejection | None"


class OpenedText(dict[str, Any]):
    """The object that a text holds as JSON, with the text; a column that reads the field itself gets the text."""

    def __init__(self, fields: dict[str, Any], text: str) -> None:
        super().__init__(fields)
        self.text = text


class OpenedList(list[Any]):
    """The array that a text holds as JSON, with the text, like ``OpenedText``."""

    def __init__(self, items: list[Any], text: str) -> None:
        super().__init__(items)
        self.text = text


def as_written(raw: Any) -> Any:
    """A parsed value; of a text that was opened, the text."""
    return raw.text if isinstance(raw, OpenedText | OpenedList) else raw


def is_null_text(raw: Any) -> bool:
    """Whether a value is a text that holds null, for what is read from within it."""
    return isinstance(raw, UnopenedText) and raw.rejection is None


class Rejection(Exception):  # noqa: N818 - a verdict on a record, not an error of the program
    """The verdict that rejects a record: a reason from a fixed list, and a detail for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail[:500]

    def without_frames(self) -> "Rejection":
        """Itself, to be kept: the frames that it was raised in would keep all records of its batch in memory."""
        self.__context__ = None
        return self.with_traceback(None)


def is_text(text: str) -> bool:
    """Whether a text can be encoded as UTF-8; one with half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def raise_no_object(raw: Any, path: str) -> NoReturn:
    """Reject what is at a path in place of an object that has the field."""
    if isinstance(raw, UnopenedText) and raw.rejection:
        raise raw.rejection
    raise Rejection("wrong_type", f"{path!r} is {json_kind(raw)} {short_text(raw)}, expected an object")


def raise_wrong_type(raw: Any, field: Field) -> NoReturn:
    """Reject a value of another type."""
    if isinstance(raw, UnopenedText) and raw.rejection and field.inner:
        raise raw.rejection
    raise Rejection("wrong_type", f"{field.source!r} is {json_kind(raw)} {short_text(raw)}, expected {field.type}")


def raise_out_of_range(raw: Any, field: Field) -> NoReturn:
    """Reject a value that the type cannot represent."""
    raise Rejection("out_of_range", f"{field.source!r} is {short_text(raw)}, too large for {field.type}")


def short_text(raw: Any) -> str:
    """The beginning of a value; of an array or object only its size, since its nesting may be too deep for ``str``."""
    return f"of {len(raw)}" if isinstance(raw, dict | list) else ascii(str(raw)[:80])[:80]


def json_kind(raw: Any) -> str:
    """The kind of a value in the terms of JSON, or of Avro if JSON has no such kind."""
    names = {dict: "an object", list: "an array", str: "text", bool: "true or false", type(None): "null"}
    names |= {bytes: "bytes", date: "a date", datetime: "a timestamp"}
    kind = next((base for base in (dict, list, str) if isinstance(raw, base)), type(raw))  # also of an opened text
    return names.get(kind, "a number")
