"""Keywords of JSON Schema about a value itself: its type, its equality to others, numbers and texts.

Numbers are compared exactly as they are written, with all of their digits.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any

from lakehouse.decoding.fields import Rejection, UnrepresentableValue, json_kind, short_text
from lakehouse.decoding.formats.json_schema.checks import KINDS, MAX_LEVELS, Evaluated, Keyword, Node, Violation, Visit
from lakehouse.decoding.formats.json_schema.patterns import Pattern

NUMBERS = (Decimal, UnrepresentableValue)
_MAX_DIGITS = 10_000  # of a number whose factors are asked for
_MAX_SHOWN = 150  # characters of a part of the schema
_TYPES = {"null": type(None), "boolean": bool, "string": str, "array": list, "object": dict}
_ONE = Decimal(1)
_BOUNDS: dict[str, tuple[Callable[[Decimal, Decimal], bool], str]] = {
    "minimum": (ge, "of at least"),
    "maximum": (le, "of at most"),
    "exclusiveMinimum": (gt, "greater than"),
    "exclusiveMaximum": (lt, "less than"),
}
_SIZES: dict[str, tuple[Callable[[int, int], bool], str]] = {"min": (ge, "at least"), "max": (le, "at most")}
_UNITS: dict[type, str] = {str: "characters", list: "items", dict: "fields"}
LENGTHS: dict[str, type] = {
    "minLength": str,
    "maxLength": str,
    "minItems": list,
    "maxItems": list,
    "minProperties": dict,
    "maxProperties": dict,
}
"""The keywords about the size of a value, and the type of the values that have it."""


def keyword(name: str, is_met: Callable[[Any], bool], expected: str) -> Keyword:
    """A keyword that depends on the value alone; ``expected`` says what it asks for."""
    shown_text = ascii(expected[:_MAX_SHOWN])[1:-1]

    def check(value: Any, _: Visit, __: Evaluated | None) -> Violation | None:
        return None if is_met(value) else Violation(name, f"is {_describe(value)}, expected {shown_text}")

    return check


def _describe(value: Any) -> str:
    return json_kind(value) if value is None or isinstance(value, bool) else f"{json_kind(value)} {short_text(value)}"


def add_types(node: Node, names: Sequence[str], *, is_draft_4: bool) -> None:
    """``type``: of several types, one. A whole number may have a decimal point, but not in draft 4."""
    kinds = {_TYPES[name] for name in names if name in _TYPES}
    kinds |= {*NUMBERS} if "number" in names else set()
    is_whole = _is_written_whole if is_draft_4 else _is_whole
    expected = " or ".join(names)
    for kind in KINDS:
        if kind is Decimal and "integer" in names and kind not in kinds:
            node.add(keyword("type", is_whole, expected), kind)
        elif kind not in kinds:
            node.add(keyword("type", lambda _: False, expected), kind)


def _is_whole(number: Decimal) -> bool:
    return number == number.to_integral_value()


def _is_written_whole(number: Decimal) -> bool:
    return number.same_quantum(_ONE)


def limit(name: str, bound: Decimal) -> Keyword:
    """A bound of numbers; a number that cannot be represented is outside of every bound."""
    compare, words = _BOUNDS[name]
    return keyword(
        name,
        lambda value: isinstance(value, Decimal) and compare(value, bound),
        f"a number {words} {short_text(bound)[1:-1]}",
    )


def multiple_of(divisor: Decimal) -> Keyword:
    """``multipleOf``, without any rounding."""
    expected = f"a multiple of {short_text(divisor)[1:-1]}"
    return keyword("multipleOf", lambda value: isinstance(value, Decimal) and is_multiple(value, divisor), expected)


def is_multiple(number: Decimal, divisor: Decimal) -> bool:
    """Whether a number is a whole multiple of another one; of a number with very many digits, it is taken not to be."""
    digits, exponent = _units(number)
    divisor_digits, divisor_exponent = _units(divisor)
    if not number or len(digits) > _MAX_DIGITS:
        return not number
    units, divisor_units = int(Decimal((0, digits, 0))), int(Decimal((0, divisor_digits, 0)))
    shift = exponent - divisor_exponent
    if shift >= 0:
        return units * pow(10, shift, divisor_units) % divisor_units == 0
    return -shift <= len(digits) and units % (divisor_units * 10**-shift) == 0


def _units(number: Decimal) -> tuple[tuple[int, ...], int]:
    _, digits, exponent = number.as_tuple()
    return digits, int(exponent)


def length(name: str, bound: int) -> Keyword:
    """A bound of the size of a text in characters, of an array or of an object."""
    compare, words = _SIZES[name[:3]]
    return keyword(name, lambda value: compare(len(value), bound), f"{words} {bound} {_UNITS[LENGTHS[name]]}")


def pattern(text: str) -> Keyword:
    """``pattern``; half of a surrogate pair is one character."""
    return keyword("pattern", Pattern(text).is_in, f"a text with a match of {text}")


def one_of_values(name: str, values: Iterable[Any]) -> Keyword:
    """``enum``, and ``const`` for a single value."""
    allowed_values = [*values]
    identities = {identity_of(value) for value in allowed_values}
    shown_text = ", ".join(
        short_text(value) if isinstance(value, str) else _describe(value) for value in allowed_values[:20]
    )
    expected = f"one of: {shown_text}" if name == "enum" else shown_text
    return keyword(name, lambda value: identity_of(value) in identities, expected)


def unique_items(value: list[Any], _: Visit, __: Evaluated | None) -> Violation | None:
    """``uniqueItems``."""
    places: dict[Hashable, int] = {}
    for place, item in enumerate(value):
        former_place = places.setdefault(identity_of(item), place)
        if former_place != place:
            return Violation("uniqueItems", f"has the same item at {former_place} and at {place}")
    return None


def identity_of(value: Any, level: int = 0) -> Hashable:
    """What is the same for equal values of JSON: 1 and 1.0 are equal, 1 and true are not."""
    if level > MAX_LEVELS:
        raise Rejection("too_large", f"its schema compares values with more than {MAX_LEVELS} levels")
    if isinstance(value, dict):
        return dict, frozenset((name, identity_of(inner, level + 1)) for name, inner in value.items())
    if isinstance(value, list):
        return list, tuple(identity_of(item, level + 1) for item in value)
    return (Decimal, _shortest(value)) if isinstance(value, Decimal) else (type(value), value)


def _shortest(number: Decimal) -> str:
    """The same text for equal numbers. Hashes of texts have a seed; of numbers, somebody can choose many with one."""
    sign, places, exponent = number.as_tuple()
    written = "".join(map(str, places))
    digits = written.rstrip("0")
    return f"{sign}{digits.lstrip('0')}e{int(exponent) + len(written) - len(digits)}" if digits else "0"
