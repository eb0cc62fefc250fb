"""The compact JSON text of a parsed value: names in their order, numbers with every digit."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from io import StringIO
from typing import Any

from lakehouse.decoding.fields import Field, Rejection, UnrepresentableValue, as_written, json_kind, short_text

_WORDS = {True: "true", False: "false", None: "null"}
_HALF = re.compile(r"[\ud800-\udfff]")
_encode = json.JSONEncoder(ensure_ascii=False).encode


def _quoted(text: str) -> str:
    """The string of JSON for a text; half of a surrogate pair, which no UTF-8 has, is escaped."""
    quoted = _encode(text)
    return _HALF.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted) if _HALF.search(quoted) else quoted


def number_text(number: Decimal) -> str:
    """The text of a number with every digit; a whole number as it was written, and zero without a sign."""
    text = str(number)
    return "0" if text == "-0" else text


def json_text(raw: Any, field: Field) -> str:
    """The JSON text of a parsed value; raises ``Rejection`` if JSON cannot write a part of it."""
    text = StringIO()  # a list of all pieces would take many times the memory of the text
    for piece in _pieces(raw, field):
        text.write(piece)
    return text.getvalue()


def json_length(raw: Any, field: Field) -> int:
    """The number of characters of the JSON text; raises like ``json_text``."""
    return sum(map(len, _pieces(raw, field)))


def _pieces(raw: Any, field: Field) -> Iterator[str]:
    """Yield the text piece by piece, without recursion: values may be nested deeply."""
    outer_values: list[tuple[Iterator[Any], str]] = []
    values, end = iter([raw]), ""
    separator = ""
    while True:
        for value in values:
            name, inner = value if end == "}" else (None, value)
            inner = as_written(inner)  # a text that was opened for another column
            yield separator if name is None else f"{separator}{_quoted(name)}:"
            separator = ","
            if not isinstance(inner, dict | list):
                yield _scalar_text(inner, field)
                continue
            outer_values.append((values, end))
            values, end = (iter(inner.items()), "}") if isinstance(inner, dict) else (iter(inner), "]")
            yield "{" if end == "}" else "["
            separator = ""
            break
        else:
            if not outer_values:
                return
            yield end
            values, end = outer_values.pop()
            separator = ","


def _scalar_text(raw: Any, field: Field) -> str:
    if isinstance(raw, str):
        return _quoted(raw)
    if raw is None or isinstance(raw, bool):
        return _WORDS[raw]
    if isinstance(raw, UnrepresentableValue):
        raise Rejection("out_of_range", f"{field.source!r} contains {short_text(raw)}, outside the range of numbers")
    if not isinstance(raw, Decimal | int | float):
        raise Rejection("wrong_type", f"{field.source!r} contains {json_kind(raw)}, which JSON cannot write")
    number = Decimal(repr(raw)) if isinstance(raw, float) else Decimal(raw)
    if not number.is_finite():
        raise Rejection("not_finite", f"{field.source!r} contains {raw}")
    return number_text(number)
