"""Times that are texts: by a pattern or in ISO 8601, in UTC, with an offset, or in a declared time zone.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from datetime import UTC, datetime, timedelta

from lakehouse.decoding.fields import Field, Rejection, short_text
from lakehouse.decoding.written_forms import REQUIRED, Zone, offsets_of

ISO8601 = "iso8601"
"""The pattern of texts in the forms of ISO 8601 that have a date with a month and dashes."""
UTC_OFFSET = "%z"
MAX_OFFSET_HOURS, MAX_OFFSET_MINUTES = 23, 59
_TWO_DIGITS, _OFFSET_SHAPE = r"\d\d", r"(?P<offset>[Zz]|[+-]\d\d(?::?\d\d)?)"
MONTH_NAME = "%b"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS = {form(name): number for number, name in enumerate(_MONTHS, 1) for form in (str, str.upper, str.lower)}
"""The number of a month by each form of its short English name."""
TIME_SHAPES = {
    "%Y": r"\d{4}",
    "%m": _TWO_DIGITS,
    MONTH_NAME: f"(?P<month>{'|'.join(MONTHS)})",
    "%d": _TWO_DIGITS,
    "%H": _TWO_DIGITS,
    "%M": _TWO_DIGITS,
    "%S": _TWO_DIGITS,
    "%f": r"\d{1,6}",
    UTC_OFFSET: _OFFSET_SHAPE,
}
_ISO_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_ISO_CLOCK = r"[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
_ISO_SHAPES = {"DATE": _ISO_DATE, "TIMESTAMP": f"{_ISO_DATE}(?:{_ISO_CLOCK}{_OFFSET_SHAPE}?)?"}
_ISO_FORMS = {"DATE": "a date alone in ISO 8601", "TIMESTAMP": "a time in ISO 8601"}
_ZERO = timedelta(0)


def parse_time(raw: str, pattern: str, field: Field) -> datetime:
    """Parse a text by a pattern to a time in UTC, rounded to microseconds; ties are rounded up.

    Raises ``Rejection`` with one of the reasons ``wrong_time_format``, ``no_such_date``, ``ambiguous_time`` or
    ``out_of_range``.
    """
    is_iso = pattern == ISO8601
    match = re.fullmatch(_ISO_SHAPES[field.type] if is_iso else _shape_of(pattern), raw, re.ASCII)
    if match is None:
        expected = _ISO_FORMS[field.type] if is_iso else pattern
        raise Rejection("wrong_time_format", f"{field.source!r} is {short_text(raw)}, expected {expected}")
    parts = match.groupdict()
    fraction = _parse_fraction(parts.get("fraction"))
    try:
        if is_iso:
            local_time = datetime(*(int(number) for number in match.groups()[:6] if number))  # type: ignore[arg-type]
        else:
            local_time = datetime.strptime(*_with_digits(match, pattern))
        utc_offset = _parse_offset(parts.get("offset"))
    except ValueError:
        raise Rejection("no_such_date", f"{field.source!r} is {short_text(raw)}") from None
    return local_to_utc(local_time, raw, field, utc_offset, fraction)


def local_to_utc(
    local_time: datetime, raw: object, field: Field, utc_offset: timedelta | None = None, fraction: timedelta = _ZERO
) -> datetime:
    """Return the time in UTC of a local time and a fraction of a second.

    Without an offset, it is a time in the zone of the field, or in UTC if the field has none. Raises ``Rejection`` with
    one of the reasons ``no_such_date``, ``ambiguous_time`` or ``out_of_range``.
    """
    if utc_offset is None:
        utc_offset = _offset_in(field.form.zone, local_time, raw, field) if field.form.zone else _ZERO
    try:
        return (local_time - utc_offset + fraction).replace(tzinfo=UTC)
    except OverflowError:
        detail = f"{field.source!r} is {short_text(raw)}, which is outside of the years 1 to 9999 in UTC"
        raise Rejection("out_of_range", detail) from None


def _shape_of(pattern: str) -> str:
    shape = re.escape(pattern)
    for directive, directive_shape in TIME_SHAPES.items():
        shape = shape.replace(directive, directive_shape)
    return shape


def _with_digits(match: re.Match[str], pattern: str) -> tuple[str, str]:
    """The text and its pattern, with a letter in place of the offset, and digits in place of the name of a month.

    Python reads such names by the language of the process.
    """
    text, parts = match.string, match.groupdict()
    replacements = [(match.span("offset"), "Z")] if UTC_OFFSET in pattern else []
    replacements += [(match.span("month"), f"|{MONTHS[parts['month']]:02}|")] if MONTH_NAME in pattern else []
    for (start, end), replacement in sorted(replacements, reverse=True):
        text = f"{text[:start]}{replacement}{text[end:]}"
    return text, pattern.replace(UTC_OFFSET, "Z").replace(MONTH_NAME, "|%m|")


def _parse_fraction(digits: str | None) -> timedelta:
    """The fraction of a second, rounded to microseconds."""
    return timedelta(microseconds=(int(digits.ljust(9, "0")) + 500) // 1000) if digits else _ZERO


def _parse_offset(text: str | None) -> timedelta | None:
    """Parse an offset from UTC; raises ``ValueError`` for one of 24 hours or 60 minutes."""
    if text is None or text in "Zz":
        return None if text is None else _ZERO
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > MAX_OFFSET_HOURS or minutes > MAX_OFFSET_MINUTES:
        raise ValueError(text)
    utc_offset = timedelta(hours=hours, minutes=minutes)
    return -utc_offset if text.startswith("-") else utc_offset


def _offset_in(zone: Zone, local_time: datetime, raw: object, field: Field) -> timedelta:
    """The offset of a local time in a zone; raises ``Rejection`` if clocks change and the zone does not decide."""
    if zone.name == REQUIRED:
        raise Rejection("wrong_time_format", f"{field.source!r} is {short_text(raw)}, expected an offset from UTC")
    before, after = offsets_of(local_time, zone)
    if before == after:
        return before
    is_twice = before > after
    choice = zone.ambiguous if is_twice else zone.missing
    if choice == "reject":
        reason, event = ("ambiguous_time", "occurs twice") if is_twice else ("no_such_date", "does not occur")
        raise Rejection(reason, f"{field.source!r} is {short_text(raw)}, which {event} in {zone.name}")
    return max(before, after) if choice == "earlier" else min(before, after)
