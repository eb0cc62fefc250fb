"""Conditions in the SQL of a computed column, and what depends on them: ``CASE``, ``IF`` and ``NULLIF``."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.declaration.sql.functions import (
    BOOLEAN,
    COMPARISONS,
    NULL,
    NUMBERS,
    STRING,
    NotComputable,
    Part,
    cast_null,
)
from lakehouse.declaration.sql.parsed import operands_of, quoted, require_kind, require_parentheses, shown_sql

if TYPE_CHECKING:
    from sqlglot import exp


class PartReader(ABC):
    """Reads the parts of a parsed expression over columns of known types; ``places`` is SQL in place of their names."""

    def __init__(self, columns: Mapping[str, str], places: Mapping[str, str]) -> None:
        self.columns = {name.lower(): type_ for name, type_ in columns.items()}
        self.places = {name.lower(): sql for name, sql in places.items()}

    @abstractmethod
    def read(self, node: "exp.Expr | None") -> Part:
        """The SQL of a part; ``NotComputable`` if the part is not supported."""

    def read_as(self, node: "exp.Expr", *kinds: str) -> Part:
        """The SQL of a part that must have one of the kinds, or NULL."""
        part = self.read(node)
        require_kind(node, part, kinds)
        return cast_null(part, kinds[0])

    def read_alike(self, nodes: Sequence["exp.Expr"]) -> tuple[list[str], str]:
        """Compile operands that must share a kind; return their SQL and the kind."""
        parts = [self.read(node) for node in nodes]
        kinds = {part.kind for part in parts} - {NULL}
        if kinds <= {*NUMBERS}:
            kind = max(kinds, key=NUMBERS.index, default=NULL)
        elif len(kinds) == 1:
            (kind,) = kinds
        else:
            operands = ", ".join(f"{shown_sql(node)} ({part.kind})" for node, part in zip(nodes, parts, strict=True))
            raise NotComputable(
                f"these cannot be combined: {operands}",
                "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
            )
        return [cast_null(part, kind).sql for part in parts], kind


def read_comparison(reader: PartReader, node: Any) -> Part:
    """Two values that are compared."""
    require_parentheses(node.this, node.expression)
    (left, right), _ = reader.read_alike([node.this, node.expression])
    return Part(f"({left} {COMPARISONS[type(node).__name__]} {right})", BOOLEAN)


def read_connective(reader: PartReader, node: Any) -> Part:
    """Conditions that are joined by AND or OR."""
    parts = [reader.read_as(operand, BOOLEAN).sql for operand in operands_of(node)]
    return Part(f"({f' {node.key.upper()} '.join(parts)})", BOOLEAN)


def read_is(reader: PartReader, node: Any) -> Part:
    """``IS NULL``, ``IS TRUE`` and so on."""
    require_parentheses(node.this)
    operand_type = type(node.expression).__name__
    if operand_type not in ("Null", "Boolean"):
        raise NotComputable(f"{shown_sql(node)} is not supported")
    part = reader.read(node.this) if operand_type == "Null" else reader.read_as(node.this, BOOLEAN)
    return Part(f"({part.sql} IS {reader.read(node.expression).sql})", BOOLEAN)


def read_in(reader: PartReader, node: Any) -> Part:
    """``IN`` a list of values."""
    require_parentheses(node.this)
    if not node.expressions:
        raise NotComputable(f"{shown_sql(node)} is not supported")
    (value, *options), _ = reader.read_alike([node.this, *node.expressions])
    return Part(f"({value} IN ({', '.join(options)}))", BOOLEAN)


def read_between(reader: PartReader, node: Any) -> Part:
    """``BETWEEN`` two bounds."""
    require_parentheses(node.this, node.args["low"], node.args["high"])
    (value, low, high), _ = reader.read_alike([node.this, node.args["low"], node.args["high"]])
    return Part(f"({value} BETWEEN {low} AND {high})", BOOLEAN)


def read_like(reader: PartReader, node: Any) -> Part:
    """``LIKE`` or ``ILIKE``, with a pattern that no string makes slow."""
    require_parentheses(node.this)
    pattern = node.expression
    if type(pattern).__name__ != "Literal" or not pattern.is_string or "\\" in pattern.this:
        raise NotComputable(f"{shown_sql(node)} is not supported", "Write a string literal without a backslash.")
    # for two of them, Spark tries every split of the string, which takes hours for a long one
    if len(re.findall("%+", pattern.this.rstrip("%"))) > 1:
        action = "Write one % before the last word. For more, combine LIKE with AND, or use contains()."
        raise NotComputable(f"{shown_sql(node)} has two % before its last word", action)
    operator = f"{'NOT ' if node.args.get('negate') else ''}{type(node).__name__.upper()}"
    return Part(f"({reader.read_as(node.this, STRING).sql} {operator} {quoted(pattern.this)})", BOOLEAN)


def read_case(reader: PartReader, node: Any) -> Part:
    """``CASE``, with or without a value that is compared."""
    branches = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    values, kind = reader.read_alike([*branches, *([default] if default else [])])
    conditions = [branch.this for branch in node.args["ifs"]]
    if node.this:
        (subject, *tests), _ = reader.read_alike([node.this, *conditions])
    else:
        subject, tests = "", [reader.read_as(condition, BOOLEAN).sql for condition in conditions]
    when = " ".join(f"WHEN {test} THEN {value}" for test, value in zip(tests, values, strict=False))
    return Part(f"CASE {subject} {when}{f' ELSE {values[-1]}' if default else ''} END", kind)


def read_if(reader: PartReader, node: Any) -> Part:
    """``IF`` with one or two results."""
    default = node.args.get("false")
    values, kind = reader.read_alike([node.args["true"], *([default] if default else [])])
    choices = ", ".join(values if default else [*values, "NULL"])
    return Part(f"IF({reader.read_as(node.this, BOOLEAN).sql}, {choices})", kind)


def read_null_if(reader: PartReader, node: Any) -> Part:
    """``NULLIF``."""
    parts, kind = reader.read_alike([node.this, node.expression])
    return Part(f"nullif({', '.join(parts)})", kind)
