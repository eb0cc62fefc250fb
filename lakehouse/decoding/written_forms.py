"""How records write values that are not in JSON's own form: what ``written`` of a column declares.

``written`` reads a form strictly, ``conversion.written`` the values of many records, and ``written_rules`` say which
columns it fits. The page of numbers, or of other values, has an example of each form.
"""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

WrittenForm = Literal[
    "text", "text_or_number", "number", "unsigned", "json", "otlp", "connect", "base64", "base64url", "hex"
]
"""The forms without options: ``text`` is a number or a boolean as text, ``number`` a text as a number.

``unsigned`` is a whole number of 64 bits without a sign: its bits may be written as a number with one, or its bytes.
"""
REQUIRED = "required"
"""In place of the name of a zone: a text must have an offset."""
LocalTimeRule = Literal["reject", "earlier", "later"]


def _declaration_of(form: Any) -> str:
    """The expression for a form, with the options that differ from their defaults."""
    values = [(field.name, getattr(form, field.name), field.default) for field in fields(form)]
    options = [(name, value) for name, value, default in values if default is MISSING or value != default]
    texts = (f"{name}={list(value) if isinstance(value, tuple) else value!r}" for name, value in options)
    return f"{type(form).__name__}({', '.join(texts)})"


@dataclass(frozen=True)
class TextNumber:
    """A number as text, with the separators and the words around it that producers write.

    ``decimal`` is the character before the fraction. ``thousands`` is the character between groups of three digits. A
    number has all of these separators or none. ``prefix`` and ``suffix`` are around each number and are dropped, so
    that 5 % is 5. A sign is in front of the prefix or of the digits, with ``trailing_sign`` also after the digits. An
    exponent is only allowed without other separators. With ``or_number``, a field may also have a number of JSON.
    """

    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    trailing_sign: bool = False
    or_number: bool = False

    @property
    def allows_exponent(self) -> bool:
        """Whether a number may have an exponent."""
        return self.decimal == "." and not self.thousands

    __repr__ = _declaration_of


@dataclass(frozen=True)
class TextBoolean:
    """A boolean as one of the listed values, each exactly as written; any other value rejects the record.

    ``1`` is a number of JSON and ``"1"`` is a text. List both if records have both.
    """

    true: Sequence[str | bool | int]
    false: Sequence[str | bool | int]

    def __post_init__(self) -> None:
        """Make lists and tuples equal; the rules of a declaration refuse everything else."""
        for name in ("true", "false"):
            if isinstance(values := getattr(self, name), list):
                object.__setattr__(self, name, tuple(values))

    __repr__ = _declaration_of


@dataclass(frozen=True)
class KeyValues:
    """An array of objects, each with a name and a value, as producers write attributes or tags: a map by name.

    ``key`` and ``value`` are the names of the fields of such an object, which has no others. Texts are the values of
    the map, and so are the texts of numbers and booleans. Arrays and objects become their JSON text. For values that
    name their type, as OpenTelemetry writes them, declare ``written="otlp"``.
    """

    key: str = "key"
    value: str = "value"
    __repr__ = _declaration_of


Written = WrittenForm | TextNumber | TextBoolean | KeyValues
_NUMBER_FORMS: dict[Written | None, TextNumber] = {"text": TextNumber(), "text_or_number": TextNumber(or_number=True)}
_BOOLEAN_FORMS: dict[Written | None, TextBoolean] = {"text": TextBoolean(("true",), ("false",))}
DIGIT_KINDS: dict[Written | None, tuple[type, ...]] = {"text_or_number": (str, int), "number": (int,)}
"""The types of the values that become the text of a whole number, by form; a text stays as it is."""
BYTE_FORMS = ("base64", "base64url", "hex")

_KINDS: dict[WrittenForm, tuple[str, ...]] = {
    "text": ("string",),
    "text_or_number": ("string", "number"),
    "number": ("number",),
    "unsigned": ("string", "number"),
    "json": (),
    "otlp": (),
    "connect": ("string",),
    "base64": ("string",),
    "base64url": ("string",),
    "hex": ("string",),
}


def written_kinds(written: Written) -> tuple[str, ...]:
    """The kinds of JSON values that a form has: string, number or boolean; empty if it has every kind."""
    if isinstance(written, TextBoolean):
        kinds = {type(value) for value in (*written.true, *written.false)}
        return tuple(name for kind, name in ((str, "string"), (bool, "boolean"), (int, "number")) if kind in kinds)
    if isinstance(written, TextNumber):
        return ("string", "number") if written.or_number else ("string",)
    return () if isinstance(written, KeyValues) else _KINDS[written]


def becomes_json(written: Written | None) -> bool:
    """Whether values of a form, or values in them, become their JSON text."""
    return written in ("json", "otlp") or isinstance(written, KeyValues)


def number_form(written: Written | None) -> TextNumber:
    """The options of a form of numbers; any other form is a ``KeyError``."""
    return written if isinstance(written, TextNumber) else _NUMBER_FORMS[written]


def boolean_form(written: Written | None) -> TextBoolean:
    """The values of a form of booleans; any other form is a ``KeyError``."""
    return written if isinstance(written, TextBoolean) else _BOOLEAN_FORMS[written]


@dataclass(frozen=True)
class Zone:
    """The time zone of texts without an offset, by its name in the tz database; a text with an offset ignores it.

    ``ambiguous`` decides about a local time that occurs twice, because clocks are set back: ``reject`` rejects the
    record, ``earlier`` takes the first of the two times, ``later`` the second. ``missing`` decides about a local time
    that does not occur, because clocks are set forward: ``reject`` rejects the record, ``earlier`` subtracts the offset
    after the change, ``later`` the offset before it. If 02:00 becomes 03:00, 02:30 is read as 01:30 or as 03:30.
    """

    name: str
    ambiguous: LocalTimeRule = "reject"
    missing: LocalTimeRule = "reject"


def zone_of(zone: str | Zone | None) -> Zone | None:
    """The zone that a name or a zone declares."""
    return Zone(zone) if isinstance(zone, str) else zone


def offsets_of(local_time: datetime, zone: Zone) -> tuple[timedelta, timedelta]:
    """The offsets of a local time: the two are equal unless clocks change.

    If the time occurs twice, the first is the greater one. If it does not occur, the second is the greater one, and the
    two are the offsets before and after the change.
    """
    info = ZoneInfo(zone.name)
    offset_before, offset_after = (info.utcoffset(local_time.replace(fold=fold)) for fold in (0, 1))
    return offset_before or timedelta(0), offset_after or timedelta(0)
