"""Parts of the SQL of a computed column: numbers, texts, times and types that are written out, and operands."""

import re
from datetime import date, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

from lakehouse.declaration.sql.functions import (
    BESIDE,
    DECIMAL,
    DOUBLE,
    KINDS,
    MOST_DIGITS,
    TEXT,
    WHOLE,
    NotComputable,
    Part,
)
from lakehouse.declaration.sql.parsed import quoted
from lakehouse.decoding.fields import is_text

if TYPE_CHECKING:
    from sqlglot import exp

_NUMBER = "^[^eE]{0,1000}([eE][+-]?0{0,100}[0-9]{1,3} {0,100})?$"  # as long and as far as numbers are
_LONGEST = 20_000  # characters
_SHORT = 4  # characters of a text that is put in for another
_MOST_GROWTH = 64  # times of the length of a record's texts
_DAY, _CLOCK, _ZONE = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", r"(Z|[+-][\d:]+)?"
_TIMES = {"DATE": re.compile(_DAY, re.ASCII), "TIMESTAMP": re.compile(f"{_DAY}[ T]{_CLOCK}{_ZONE}", re.ASCII)}


def castable(text: str) -> str:
    """SQL of a text as it may be cast to a decimal: the empty text, which is none, where that might never end.

    Of a far exponent, as of 1e-999999999, Spark computes every digit, and fails where there are too many.
    """
    return f"regexp_extract({text}, {quoted(_NUMBER)}, 0)"


def literal(node: Any) -> Part:
    """A number or a text as it is written."""
    if node.is_string:
        if "\\" in node.this or "\0" in node.this or not is_text(node.this):
            raise NotComputable(f"{node.this!r} has a backslash, or what is no text in UTF-8", "Write a text without.")
        return Part(quoted(node.this), TEXT)
    digits = sum(each.isdigit() for each in node.this)
    if "e" in node.this.lower():
        if not isfinite(float(node.this)):
            raise NotComputable(f"{node.this} is beyond any number", "Correct it.")
        return Part(f"{float(node.this)!r}D", DOUBLE)
    if digits > MOST_DIGITS:
        raise NotComputable(f"{node.this} has {digits} digits", f"A number has at most {MOST_DIGITS}.")
    return Part(node.this, DECIMAL if "." in node.this or int(node.this) >= 2**63 else WHOLE)


def cast_type(node: Any) -> str:
    """The declared type to which a cast leads."""
    to = node.args["to"]
    digits = [each.this.name for each in to.expressions]
    named = {"TEXT": "STRING", "TIMESTAMPTZ": "TIMESTAMP"}.get(to.this.name, to.this.name)
    if named == "DECIMAL" and len(digits) == 2 and all(each.isdecimal() for each in digits):
        precision, scale = map(int, digits)
        if 0 < precision <= MOST_DIGITS and scale <= precision:
            return f"DECIMAL({precision},{scale})"
    if named not in KINDS:
        types = f"{', '.join(KINDS)} or DECIMAL(precision,scale)"
        raise NotComputable(f"{written_as(node)} casts to no type of a column", f"Cast to {types}.")
    return str(named)


def time_literal(written: str, type_: str) -> str:
    """A day or a time as it is written in SQL, in UTC; ``NotComputable`` where it is none."""
    try:
        if not _TIMES[type_].fullmatch(written):
            raise ValueError
        time = date.fromisoformat(written) if type_ == "DATE" else datetime.fromisoformat(written)
    except ValueError:
        action = f"Write it as {'2026-01-31' if type_ == 'DATE' else '2026-01-31 12:00:00'}."
        raise NotComputable(f"{quoted(written)} is no {type_}", action) from None
    if isinstance(time, datetime) and time.tzinfo:
        raise NotComputable(f"{quoted(written)} names a zone", "Times are UTC: write it without.")
    return f"{type_} '{time.isoformat(*([' '] if isinstance(time, datetime) else []))}'"


def written_as(node: "exp.Expr") -> str:
    """A part as a person is told of it."""
    said = str(node.sql("spark"))
    return said if len(said) <= 80 else f"{said[:80]}…"


def require_apart(*operands: Any) -> None:
    """Refuse what stands beside another comparison without brackets: readers of SQL part it differently."""
    for each in operands:
        if type(each).__name__ in BESIDE:
            raise NotComputable(f"{written_as(each)} stands beside a comparison", "Put it in brackets.")


def chain_of(node: Any) -> list[Any]:
    """The operands of a chain of one operator, in their order."""
    operands, left = [], node
    while type(left) is type(node):
        operands.append(left.expression)
        left = left.this
    return [left, *reversed(operands)]


def require_written(node: Any) -> None:
    """A text that is put in for others is written out and short: one record could ask for more than there is."""
    search, given = node.expression, node.args["replacement"]
    written = all(type(each).__name__ == "Literal" and each.is_string for each in (search, given))
    if not written or len(given.this) > max(_SHORT, len(search.this)):
        raise NotComputable(
            f"{written_as(node)} could become larger than any text",
            f"Write out both texts, and one of up to {_SHORT} characters, or as long as the other, in its place.",
        )


def require_short(part: Part) -> Part:
    """The same part; refuse one whose SQL is too long before another is made of it, which may repeat it."""
    if len(part.sql) > _LONGEST:
        raise NotComputable(f"a part of it becomes {len(part.sql)} characters", "Write it with fewer levels.")
    return part


def require_bounded(node: Any) -> None:
    """Refuse what could make a text so many times as long as those of the record."""
    if _growth(node) > _MOST_GROWTH:
        fact = f"{written_as(node)} could become more than {_MOST_GROWTH} times as long as the texts that it is made of"
        raise NotComputable(fact, "Put fewer texts together, or replace fewer.")


def _growth(node: Any) -> int:
    """How many times as long as a text of the record a result can be."""
    within = [_growth(each) for each in node.iter_expressions()]
    if type(node).__name__ in ("Concat", "DPipe"):
        return sum(within)
    most = max(within, default=1)
    if type(node).__name__ != "Replace":
        return most
    return most * max(1, -(-len(node.args["replacement"].this) // max(1, len(node.expression.this))))
