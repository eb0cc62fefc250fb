"""What is written out in the SQL of a computed column: numbers, texts, times and types."""

from datetime import date, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

from lakehouse.declaration.computed_functions import (
    DECIMAL,
    DOUBLE,
    KINDS,
    MOST_DIGITS,
    TEXT,
    WHOLE,
    NotComputable,
    Part,
)
from lakehouse.declaration.sql import quoted

if TYPE_CHECKING:
    from sqlglot import exp


def literal(node: Any) -> Part:
    """A number or a text as it is written."""
    if node.is_string:
        if "\\" in node.this:
            raise NotComputable(f"{written_as(node)} has a backslash", "Write a text without.")
        return Part(quoted(node.this), TEXT)
    digits = sum(each.isdigit() for each in node.this)
    if "e" in node.this.lower():
        if not isfinite(float(node.this)):
            raise NotComputable(f"{node.this} is beyond any number", "Correct it.")
        return Part(f"{node.this}D", DOUBLE)
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
        time = date.fromisoformat(written) if type_ == "DATE" else datetime.fromisoformat(written)
    except ValueError:
        action = "Write it as 2026-01-31, or 2026-01-31 12:00:00."
        raise NotComputable(f"{quoted(written)} is no {type_}", action) from None
    if isinstance(time, datetime) and time.tzinfo:
        raise NotComputable(f"{quoted(written)} names a zone", "Times are UTC: write it without.")
    return f"{type_} '{time.isoformat(*([' '] if isinstance(time, datetime) else []))}'"


def written_as(node: "exp.Expr") -> str:
    """A part as a person is told of it."""
    said = str(node.sql("spark"))
    return said if len(said) <= 80 else f"{said[:80]}…"
