"""Check a parsed record by the validator of its schema, and say what is wrong with it, and where.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from decimal import MAX_EMAX, Decimal
from typing import TYPE_CHECKING, Any

from lakehouse.decoding.fields import Rejection, UnrepresentableValue, json_kind, short_text
from lakehouse.decoding.formats.json_schema.costs import Costs

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

VIOLATION = "schema_violation"
"""The reason to reject a record that does not meet its schema."""
MAX_DEPTH = 200
"""Arrays and objects within each other: more could overflow the stack of the process."""
_MAX_MATCHING = 20_000_000  # characters of a text times steps of a pattern: about a second at most
_MAX_COMPARED = 30_000_000  # digits of different numbers that are the same double: each is compared with each
_MAX_PLACES = 10_000  # digits and zeros of a number that the library writes out
_FEW_BYTES = 300  # of a record with too few numbers to matter
_MAX_EXPLAINED = 1_000_000  # bytes times schemas: a value with some bytes may become an error of each
_MAX_STACKED = 2_000  # schemas that are applied within each other while a violation is explained
_MAX_DIGITS = 1_000  # of a number in an explanation
_MAX_PATH, _MAX_MESSAGE = 150, 200  # characters
_PARTS = frozenset({dict, list, UnrepresentableValue})
_HALF = re.compile("[\ud800-\udfff]")


def survey(value: Any) -> tuple[int, bool]:
    """The depth of a parsed value, and whether a number in it cannot be represented.

    Raises ``Rejection`` if it is too deep.
    """
    depth, has_unrepresentable = 0, type(value) is UnrepresentableValue
    level = [value] if type(value) in _PARTS else []
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise Rejection("too_large", f"it has more than {MAX_DEPTH} arrays and objects within each other")
        level = [
            inner
            for part in level
            for inner in (part.values() if type(part) is dict else part)
            if type(inner) in _PARTS
        ]
        if level and not has_unrepresentable:
            has_unrepresentable = UnrepresentableValue in map(type, level)
    return depth, has_unrepresentable


def readable(value: Any) -> Any:
    """A value in which the library can read every part.

    Half of a surrogate pair becomes another character, and a number that cannot be represented the nearest that can.
    """
    return _with_scalars(value, _readable_scalar)


def _with_scalars(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value with all of its names and scalars changed."""
    if isinstance(value, dict):
        return {change(name): _with_scalars(inner, change) for name, inner in value.items()}
    return [_with_scalars(item, change) for item in value] if isinstance(value, list) else change(value)


def _readable_scalar(scalar: Any) -> Any:
    if isinstance(scalar, str):
        return _HALF.sub(lambda half: chr(ord(half[0]) + 0x102000), scalar)  # a private character
    return _nearest(scalar.text) if isinstance(scalar, UnrepresentableValue) else scalar


def _nearest(text: str) -> Decimal:
    digits, _, exponent = text.lower().partition("e")
    is_zero = not digits.strip("-0.")
    return Decimal((text.startswith("-"), (0 if is_zero else 1,), -MAX_EMAX if exponent.startswith("-") else MAX_EMAX))


def _short_scalar(scalar: Any) -> Any:
    """A scalar with at most so many digits that an error of the library can have it: the last ones."""
    if isinstance(scalar, Decimal) and len(scalar.as_tuple().digits) > _MAX_DIGITS:
        sign, digits, exponent = scalar.as_tuple()
        return Decimal((sign, digits[-_MAX_DIGITS:], int(exponent)))
    return scalar


class RecordCheck:
    """Checks records by one schema.

    ``patterns`` are the patterns of the schema as they were written, by those that the validator has. ``step_count`` is
    the most steps of one.
    """

    def __init__(self, validator: "Validator", costs: Costs, patterns: Mapping[str, str], step_count: int) -> None:
        self._validator, self._costs, self._patterns, self._step_count = validator, costs, patterns, step_count
        self._small_size = _FEW_BYTES if costs.compares_items else _MAX_MATCHING // max(1, step_count)

    def check(self, value: Any, size: int) -> None:
        """Raise ``Rejection`` if a value of this many bytes does not meet the schema, or takes too much to check."""
        depth, has_unrepresentable = survey(value)
        if size > self._small_size:
            self._require_cheap_scalars(value)
        value = readable(value) if has_unrepresentable else value
        try:
            is_valid = self._validator.is_valid(value)
        except ValueError:  # half of a surrogate pair
            value = readable(value)
            is_valid = self._validator.is_valid(value)
        if not is_valid:
            raise Rejection(VIOLATION, self._explain(value, depth, size))

    def _require_cheap_scalars(self, value: Any) -> None:
        """Raise ``Rejection`` if a text or the numbers in a value take too much to match or to compare."""
        longest = max((len(scalar) for scalar in _scalars(value) if isinstance(scalar, str)), default=0)
        if longest * self._step_count > _MAX_MATCHING:
            raise Rejection("too_large", f"a text of {longest:,} letters is too long for a pattern of its schema")
        if self._costs.compares_items:
            _require_different_numbers(value)

    def _explain(self, value: Any, depth: int, size: int) -> str:
        """What is wrong with a value, in words with a bounded length and only ASCII characters."""
        costs = self._costs
        is_long = costs.has_alternatives and size * costs.of_explanation(depth) > _MAX_EXPLAINED
        if is_long or depth * costs.height > _MAX_STACKED:
            return "the value does not meet its schema, and it is too large to say where"
        import jsonschema_rs  # noqa: PLC0415 - a worker needs it only for tables whose records are checked

        for change in (None, _short_scalar):
            changed_value = _with_scalars(value, change) if change else value
            try:
                self._validator.validate(changed_value)
            except jsonschema_rs.ValidationError as error:
                return self._describe(_most_likely(error), value)
            except ValueError:  # a number has too many digits for a whole number of Python
                continue
        return "the value does not meet its schema"

    def _describe(self, error: "ValidationError", value: Any) -> str:
        steps = list[str]()
        for step in error.instance_path:
            name = str(step) if isinstance(value, dict) else step  # the library returns the name "1" as a number
            steps.append(f".{name[:_MAX_PATH]}" if isinstance(name, str) else f"[{name}]")
            value = _inner_value(value, name)
        path = ascii("".join(steps).removeprefix(".")[:_MAX_PATH])[1:-1]
        shown_path = f"'{path[:_MAX_PATH]}'" if path else "the value"
        is_plain = value is None or isinstance(value, bool)
        described = json_kind(value) if is_plain else f"{json_kind(value)} {short_text(value)}"
        pattern = self._patterns.get(getattr(error.kind, "pattern", ""))
        message = _with_few_digits(error.message) if pattern is None else f'it does not match "{pattern}"'
        shown_message = ascii(message[:_MAX_MESSAGE])[1:-1][:_MAX_MESSAGE]
        return f"{shown_path} is {described}: {shown_message} ({_keyword_of(error)})"


def _with_few_digits(message: str) -> str:
    """A message without the zeros that a number of the schema got for the library."""
    words, _, number = message.rpartition(" ")
    if number.lower().startswith(("0e-", "-0e-")):
        return f"{words} 0"
    return f"{words} {number.rstrip('0').removesuffix('.')}" if len(number) > 10_000 else message


def _inner_value(value: Any, step: str | int) -> Any:
    """The field or item of a value; the value itself if there is none, since the library leaves out empty names."""
    if isinstance(value, dict):
        return value.get(step, value)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else value


def _keyword_of(error: "ValidationError") -> str:
    """The keyword of the schema that is not met."""
    name = error.kind.name
    if name in ("falseSchema", "propertyNames"):
        return name.removesuffix("Schema")
    return ascii(error.schema_path[-1])[1:-1][:_MAX_PATH] if error.schema_path else name


def _most_likely(error: "ValidationError") -> "ValidationError":
    """Of a value that meets none of several schemas, the violation of the one that is for values of its type."""
    while True:
        alternatives = [errors[0] for errors in getattr(error.kind, "context", ()) if errors]
        path = error.instance_path
        likely_errors = [inner for inner in alternatives if inner.instance_path != path or inner.kind.name != "type"]
        if len(likely_errors) != 1:
            return error
        error = likely_errors[0]


def _require_different_numbers(value: Any) -> None:
    numbers = defaultdict[float, set[str]](set)
    digit_counts = defaultdict[float, int](int)
    for scalar in _scalars(value):
        if isinstance(scalar, Decimal):
            _, digits, exponent = scalar.as_tuple()
            double = float(scalar)
            numbers[double].add(str(scalar))
            digit_counts[double] = max(digit_counts[double], min(_MAX_PLACES, len(digits) + abs(int(exponent))))
    if any(len(alike) ** 2 * digit_counts[double] > _MAX_COMPARED for double, alike in numbers.items()):
        raise Rejection("too_large", "its schema compares too many long numbers that are nearly equal")


def _scalars(value: Any) -> Iterator[Any]:
    """Yield the names, texts and numbers in a value."""
    if isinstance(value, dict):
        yield from value
        value = value.values()
    elif not isinstance(value, list):
        yield value
        return
    for inner in value:
        yield from _scalars(inner)
