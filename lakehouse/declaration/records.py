"""Strict decoding of one record into typed values, or a reason why it may not enter.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on
Spark's executors. One rule for records, base files and the publisher.
"""

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, NamedTuple

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
    "late",
)
_BLANK = " \t\r\n"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CUT_SHORT = re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|\.|(\.\d+)?[eE][+-]?|u[0-9a-fA-F]{0,4}|")
# never the context of whoever calls, which rounds to 28 digits
_EXACTLY = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])
WHOLE = {"INT": 2**31, "BIGINT": 2**63}
_TWO = r"\d\d"
TIME_SHAPES = {"%Y": r"\d{4}", "%m": _TWO, "%d": _TWO, "%H": _TWO, "%M": _TWO, "%S": _TWO, "%f": r"\d{1,6}"}


class Field(NamedTuple):
    """A rule for one field of a record: what it is called, its type and what is allowed."""

    name: str
    source: str
    type: str
    required: bool
    least: Decimal | float | None
    most: Decimal | float | None
    pattern: str | None


class Lateness(NamedTuple):
    """When a record is late: the field of its event time, how long after it the broker may get it, and what then."""

    name: str
    after: timedelta
    reject: bool


class _Beyond(NamedTuple):
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


def decode(value: bytes | None, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Decode the bytes of one record into a value for each field; a missing or null field is ``None``.

    Raises ``Rejection`` with one of the reasons ``tombstone``, ``empty_value``, ``invalid_utf8``,
    ``truncated``, ``invalid_json``, ``trailing_bytes``, ``duplicate_name``, ``not_finite``, ``not_an_object``
    or one of those of ``convert``.
    """
    return convert(parse(value), fields)


def parse(value: bytes | None) -> dict[str, Any]:
    """Parse the bytes of one record as a JSON object, with numbers exactly as written."""
    if value is None:
        raise Rejection("tombstone", "the record has no value; deletes are not declared for this table")
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"byte {error.start} is not UTF-8") from None
    if not text.strip(_BLANK):
        raise Rejection("empty_value", "the value is empty")
    parsed = _parse_text(text)
    if not isinstance(parsed, dict):
        raise Rejection("not_an_object", f"the value is {_kind(parsed)}, not an object")
    return parsed


def _parse_text(text: str) -> Any:
    try:
        return json.loads(
            text,
            parse_float=_exact,
            parse_int=_exact,
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_duplicates,
        )
    except json.JSONDecodeError as error:
        raise Rejection(_reason_of(error), f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise Rejection("invalid_json", "nested too deeply") from None


def _reason_of(error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return "trailing_bytes"
    begun = error.doc.lstrip(_BLANK)[:1] in ("{", "[")
    cut_short = error.msg.startswith("Unterminated") or _CUT_SHORT.fullmatch(error.doc[error.pos :].rstrip(_BLANK))
    return "truncated" if begun and cut_short else "invalid_json"


def _exact(written: str) -> Decimal | _Beyond:
    try:
        return Decimal(written, _EXACTLY)
    except InvalidOperation:
        return _Beyond(written)


def _refuse_constant(name: str) -> Any:
    raise Rejection("not_finite", f"{name} is not a number in JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for name, value in pairs:
        if name in unique:
            raise Rejection("duplicate_name", f"{name!r} stands more than once")
        unique[name] = value
    return unique


def convert(parsed: dict[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    """Turn parsed fields into typed values; fields nobody declared are ignored.

    Raises ``Rejection`` with one of the reasons ``missing_field``, ``null_field``, ``wrong_type``,
    ``wrong_time_format``, ``no_such_date``, ``out_of_range`` or ``invalid_text``.
    """
    return {field.name: _convert_one(parsed, field) for field in fields}


def judge_late(row: dict[str, Any], arrived: int, rule: Lateness) -> bool:
    """Say whether a decoded record is late; ``arrived`` is its broker time in microseconds since 1970, UTC.

    A record without an event time is not. Raises ``Rejection`` with the reason ``late`` where a late one
    may not enter.
    """
    event = row[rule.name]
    if event is None:
        return False
    happened = event if isinstance(event, datetime) else datetime(event.year, event.month, event.day, tzinfo=UTC)
    if arrived - (happened - _EPOCH) // _MICROSECOND <= rule.after // _MICROSECOND:
        return False
    if rule.reject:
        raise Rejection(
            "late", f"{rule.name!r} is {happened.isoformat()}, the broker got it {_moment(arrived)}, limit {rule.after}"
        )
    return True


def _moment(microseconds: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:
        return f"{microseconds} microseconds after 1970"


def _convert_one(parsed: dict[str, Any], field: Field) -> Any:
    raw = parsed.get(field.source)
    if raw is None:
        if field.required:
            missing = field.source not in parsed
            raise Rejection("missing_field" if missing else "null_field", f"{field.source!r} is required")
        return None
    value = _typed(raw, field)
    too_small = field.least is not None and value < field.least
    too_great = field.most is not None and value > field.most
    if too_small or too_great:
        allowed = f"{field.least} to {field.most}"
        raise Rejection("out_of_range", f"{field.source!r} is {_shown(raw)}, allowed is {allowed}")
    return value


def _typed(raw: Any, field: Field) -> Any:
    if field.type == "STRING":
        return _text(raw, field)
    if field.type == "BOOLEAN":
        return raw if isinstance(raw, bool) else _wrong_type(raw, field)
    if field.type in ("TIMESTAMP", "DATE"):
        return _time(raw, field)
    if isinstance(raw, _Beyond):
        raise Rejection("out_of_range", f"{field.source!r} is {_shown(raw)}, whose exponent is beyond any number")
    if not isinstance(raw, Decimal | float | int) or isinstance(raw, bool):
        return _wrong_type(raw, field)
    return _number(raw, field)


def _number(raw: Decimal | float | int, field: Field) -> Any:
    exact = Decimal(repr(raw)) if isinstance(raw, float) else Decimal(raw)
    if not exact.is_finite():
        raise Rejection("not_finite", f"{field.source!r} is {raw}")
    if field.type in WHOLE:
        return _whole(exact, field)
    if field.type == "DOUBLE":
        double = float(exact)
        # adding 0 turns -0.0 into 0.0: the two are equal, and which of them a minimum keeps would be chance
        return _out_of_range(raw, field) if double in (float("inf"), float("-inf")) else double + 0.0
    return exact_decimal(exact, field)


def _whole(exact: Decimal, field: Field) -> int:
    if (exact and exact.adjusted() > 20) or not -WHOLE[field.type] <= exact < WHOLE[field.type]:
        return int(_out_of_range(exact, field))
    return int(exact) if exact == exact.to_integral_value() else int(_wrong_type(exact, field))


def exact_decimal(exact: Decimal, field: Field) -> Decimal:
    """Round to the scale of the field's type, ties away from zero: the one rule for decimal keys."""
    precision, scale = (int(part) for part in field.type[8:-1].split(","))
    digits = Context(prec=precision, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])
    try:
        return digits.plus(digits.quantize(exact, Decimal((0, (1,), -scale))))
    except InvalidOperation:
        return Decimal(_out_of_range(exact, field))


def _text(raw: Any, field: Field) -> str:
    if not isinstance(raw, str):
        return str(_wrong_type(raw, field))
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        raise Rejection("invalid_text", f"{field.source!r} holds half of a surrogate pair") from None
    return raw


def _time(raw: Any, field: Field) -> datetime | date:
    if isinstance(raw, datetime) and field.type == "TIMESTAMP":
        return raw if raw.tzinfo else raw.replace(tzinfo=UTC)
    if isinstance(raw, date) and not isinstance(raw, datetime) and field.type == "DATE":
        return raw
    pattern = field.pattern or ""
    if not isinstance(raw, str):
        _wrong_type(raw, field)
    if not re.fullmatch(_shape(pattern), raw, re.ASCII):
        raise Rejection("wrong_time_format", f"{field.source!r} is {_shown(raw)}, expected {pattern}")
    try:
        parsed = datetime.strptime(raw, pattern).replace(tzinfo=UTC)
    except ValueError:
        raise Rejection("no_such_date", f"{field.source!r} is {_shown(raw)}") from None
    return parsed.date() if field.type == "DATE" else parsed


def _shape(pattern: str) -> str:
    shape = re.escape(pattern)
    for directive, digits in TIME_SHAPES.items():
        shape = shape.replace(directive, digits)
    return shape


def _wrong_type(raw: Any, field: Field) -> Any:
    raise Rejection("wrong_type", f"{field.source!r} is {_kind(raw)} {_shown(raw)}, expected {field.type}")


def _out_of_range(raw: Any, field: Field) -> Any:
    raise Rejection("out_of_range", f"{field.source!r} is {_shown(raw)}, too large for {field.type}")


def _shown(raw: Any) -> str:
    """The beginning of a value; never the text of an array or object, which may be deeper than Python can write."""
    return f"of {len(raw)}" if isinstance(raw, dict | list) else ascii(str(raw)[:80])[:80]


def _kind(raw: Any) -> str:
    names = {dict: "an object", list: "an array", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(raw), "a number")
