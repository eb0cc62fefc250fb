"""The rule for one field of a record, and the verdict where it is broken."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, NoReturn

from lakehouse.decoding.record_parts import VALUE, Written

OF_SCHEMAS = ("wrong_magic", "unknown_schema", "unusable_schema")
"""Reasons to reject a record that only those have before which the id of a schema stands."""
TIMELESS = "no_such_time"
"""The reason to reject a record whose own time, in its topic, is beyond any timestamp; no decoding tells it."""
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
    "out_of_range",
    "invalid_text",
    "too_large",
    *OF_SCHEMAS,
    "late",
    TIMELESS,
)
"""Reasons that records of any format may have; ``Format.reasons`` are those of one alone."""
Epoch = Literal["seconds", "milliseconds", "microseconds", "days"]
WHOLE = {"INT": 2**31, "BIGINT": 2**63}


class Field(NamedTuple):
    """A rule for one field of a record: what it is called, its type and what is allowed.

    ``path`` are the names that lead to it, where it is within another; ``source`` is how a person is told of it.
    ``epoch`` is the unit of a time that is written as a number. ``default`` stands for a value where there is none,
    written as it would be in the record. ``part`` is where it stands: in the value of the record, or beside it.
    ``former`` are the names that led to it before; they are asked where it is missing. ``nulls`` are what stands for
    null, as it is written. ``inner`` are the rules for what its values hold, where they hold others; ``leaves`` is how
    many plain values one of them has room for, itself or in a struct, where it is there or not. Of one whose
    ``null_erases`` it matters whether a record says null, or nothing. ``written`` is how the key of a record is, and
    ``room`` how many bytes of memory one of its values takes, but for the items of arrays and maps in it.
    """

    name: str
    source: str
    type: str
    required: bool
    least: Decimal | float | None
    most: Decimal | float | None
    pattern: str | None
    path: tuple[str, ...] = ()
    epoch: Epoch | None = None
    default: str | bool | float | None = None
    part: str = VALUE
    former: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ()
    inner: tuple["Field", ...] = ()
    leaves: int = 1
    null_erases: bool = False
    written: Written = "text"
    room: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names that lead to it, one within the other."""
        return self.path or (self.source,)


class Beyond(NamedTuple):
    """A number whose exponent is beyond any, as it was written: nothing where nobody declared its field."""

    written: str

    def __str__(self) -> str:
        return self.written


class Rejection(Exception):  # noqa: N818 - a verdict on a record, not an error of the program
    """A record may not enter: a reason from a short list, and the detail a person needs."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail[:500]


def is_text(text: str) -> bool:
    """Whether a text of somebody else's can be written in UTF-8; one with half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def wrong_type(raw: Any, field: Field) -> NoReturn:
    """Refuse a value that is of another type."""
    raise Rejection("wrong_type", f"{field.source!r} is {kind(raw)} {shown(raw)}, expected {field.type}")


def out_of_range(raw: Any, field: Field) -> NoReturn:
    """Refuse a value that the type does not hold."""
    raise Rejection("out_of_range", f"{field.source!r} is {shown(raw)}, too large for {field.type}")


def shown(raw: Any) -> str:
    """The beginning of a value; never the text of an array or object, which may be deeper than Python can write."""
    return f"of {len(raw)}" if isinstance(raw, dict | list) else ascii(str(raw)[:80])[:80]


def kind(raw: Any) -> str:
    """What a value is, in JSON's words, and in Avro's for what JSON has not."""
    names = {dict: "an object", list: "an array", str: "text", bool: "true or false", type(None): "null"}
    names |= {bytes: "bytes", date: "a day", datetime: "a moment"}
    return names.get(type(raw), "a number")
