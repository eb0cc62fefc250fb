"""Operations in the SQL of a computed column: conditions, functions, arithmetic, texts, times and casts.

None of them fails for a record: where Spark's own could, another one returns NULL.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.declaration.sql.functions import (
    ARITHMETIC,
    BOOLEAN,
    CASTS,
    COMPARISONS,
    DATE,
    DECIMAL,
    DOUBLE,
    FUNCTIONS,
    IGNORED_ARGUMENTS,
    INTEGER,
    INTEGER_LITERAL,
    MAX_DIGITS,
    NULL,
    NUMBERS,
    STRING,
    TIMES,
    TIMESTAMP,
    VARIADIC,
    NotComputable,
    Part,
    as_bigint,
    cast_null,
    kind_of,
)
from lakehouse.declaration.sql.parsed import (
    cast_type,
    castable,
    operands_of,
    quoted,
    require_kind,
    require_parentheses,
    require_short_replacement,
    shown_sql,
    time_literal,
)
from lakehouse.declaration.sql.parser import exp

_MAX_LITERAL_LENGTH = 12  # characters of an integer literal
_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")  # no week: the first of all began before it


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


def read_function(reader: PartReader, node: Any) -> Part:
    """A function whose arguments have fixed kinds."""
    function = FUNCTIONS[type(node).__name__]
    arguments = {name for name, value in node.args.items() if value and name not in IGNORED_ARGUMENTS}
    if type(node).__name__ == "Initcap" and node.expression.sql("spark") == "' '":
        arguments -= {"expression"}  # which the parser adds
    required_names = {*function.arguments[: function.required_count]}
    if arguments - {*function.arguments} or not required_names <= arguments:
        raise NotComputable(f"{shown_sql(node)} has arguments that {function.name}() does not support")
    kinds = [pair for pair in zip(function.arguments, function.argument_kinds, strict=True) if pair[0] in arguments]
    parts = [_read_argument(reader, node.args[name], kind) for name, kind in kinds]
    if type(node).__name__ == "SplitPart" and parts[-1].sql == "0":
        raise NotComputable("split_part() counts from 1", "Write another number.")
    if type(node).__name__ == "Replace":
        require_short_replacement(node)
    if type(node).__name__ == "Round" and not 0 <= int(parts[-1].sql if len(parts) > 1 else 0) <= MAX_DIGITS:
        raise NotComputable(f"round() to {parts[-1].sql} places is not supported", "Write 0 to 38 places.")
    return Part(f"{function.name}({', '.join(part.sql for part in parts)})", function.result_kind or parts[0].kind)


def _read_argument(reader: PartReader, node: Any, kinds: str | tuple[str, ...]) -> Part:
    if kinds == TIMES:
        return read_day(reader, node)
    if kinds != INTEGER_LITERAL:
        return reader.read_as(node, *((kinds,) if isinstance(kinds, str) else kinds))
    sql = node.sql("spark")
    is_integer = sql.isascii() and sql.removeprefix("-").isdecimal() and len(sql) < _MAX_LITERAL_LENGTH
    if not is_integer or abs(int(sql)) >= 2**31:
        raise NotComputable(f"{sql} is not an integer literal", "Write a number, for example left(name, 3).")
    return Part(str(int(sql)), INTEGER)


def read_arithmetic(reader: PartReader, node: Any) -> Part:
    """Addition and so on, in the form that returns NULL in place of an error."""
    name = ARITHMETIC[type(node).__name__]
    left, right = (reader.read_as(operand, *NUMBERS) for operand in (node.this, node.expression))
    kind = max(left.kind, right.kind, key=lambda kind: NUMBERS.index(kind) if kind in NUMBERS else -1)
    if name == "try_divide" and kind == INTEGER:
        kind = DOUBLE
    elif kind == INTEGER:  # in 64 bits; the cast to the type of the column checks whether the result fits
        return Part(f"{name}({as_bigint(left)}, {as_bigint(right)})", kind)
    return Part(f"{name}({left.sql}, {right.sql})", kind)


def read_variadic(reader: PartReader, node: Any) -> Part:
    """A function of any number of values of one kind."""
    parts, kind = reader.read_alike([node.this, *node.expressions])
    if len(parts) < 2:
        raise NotComputable(f"{shown_sql(node)} has only one argument", "Write at least two.")
    return Part(f"{VARIADIC[type(node).__name__]}({', '.join(parts)})", kind)


def read_negative(reader: PartReader, node: Any) -> Part:
    """A number with a minus sign."""
    part = reader.read_as(node.this, *NUMBERS)
    if type(node.this).__name__ == "Literal":
        return Part(f"-{part.sql}", part.kind)
    return Part(f"try_subtract(0, {as_bigint(part) if part.kind == INTEGER else part.sql})", part.kind)


def read_absolute(reader: PartReader, node: Any) -> Part:
    """``ABS``."""
    part = reader.read_as(node.this, *NUMBERS)
    if part.kind == DECIMAL:  # above 34 digits, Spark's own abs() rounds, and fails if one more digit is needed
        return Part(f"IF({part.sql} < 0, try_subtract(0, {part.sql}), {part.sql})", DECIMAL)
    if part.kind == INTEGER:
        return Part(f"try_cast(abs(try_cast({part.sql} AS DECIMAL(20,0))) AS BIGINT)", INTEGER)
    return Part(f"abs({part.sql})", part.kind)


def read_concat(reader: PartReader, node: Any) -> Part:
    """Strings that are joined by ``CONCAT`` or ``||``."""
    operands = node.expressions if type(node).__name__ == "Concat" else operands_of(node)
    parts = [reader.read_as(operand, STRING) for operand in operands]
    return Part(f"concat({', '.join(part.sql for part in parts)})", STRING)


def read_trim(reader: PartReader, node: Any) -> Part:
    """``TRIM``, ``LTRIM`` or ``RTRIM``."""
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
    return Part(f"{name}({reader.read_as(node.this, STRING).sql})", STRING)


def read_day(reader: PartReader, node: Any) -> Part:
    """The date of a time."""
    part = reader.read_as(node.this if type(node).__name__ == "TsOrDsToDate" else node, *TIMES)
    return part if part.kind == DATE else Part(f"CAST({part.sql} AS DATE)", DATE)


def read_trunc(reader: PartReader, node: Any) -> Part:
    """The beginning of the period of a time."""
    unit = str(node.args["unit"].this).upper()
    name, kind = ("date_trunc", TIMESTAMP) if type(node).__name__ == "TimestampTrunc" else ("trunc", DATE)
    units = _UNITS if kind == TIMESTAMP else _UNITS[:3]
    if unit not in units:
        raise NotComputable(f"{name}() by {unit} is not supported", f"The units are {', '.join(units)}.")
    part = reader.read_as(node.this, kind).sql
    return Part(f"date_trunc('{unit}', {part})" if kind == TIMESTAMP else f"trunc({part}, '{unit}')", kind)


def read_cast(reader: PartReader, node: Any) -> Part:
    """A cast, in the form that returns NULL in place of an error."""
    type_ = cast_type(node)
    kind = kind_of(type_)
    if type(node.this).__name__ == "Literal" and node.this.is_string and kind in TIMES:
        return Part(time_literal(node.this.this, type_), kind)
    part = reader.read_as(node.this, *CASTS[kind])
    sql = castable(part.sql) if (part.kind, kind) == (STRING, DECIMAL) else part.sql
    return Part(f"try_cast({sql} AS {type_})", kind)
