"""Operations in the SQL of a computed column: functions, arithmetic, texts, times and casts.

None of them fails for a record: where Spark's own could, another one returns NULL.
"""

from typing import Any

from lakehouse.declaration.sql.conditions import PartReader
from lakehouse.declaration.sql.functions import (
    ARITHMETIC,
    CASTS,
    DATE,
    DECIMAL,
    DOUBLE,
    FUNCTIONS,
    IGNORED_ARGUMENTS,
    INTEGER,
    INTEGER_LITERAL,
    MAX_DIGITS,
    NUMBERS,
    STRING,
    TIMES,
    TIMESTAMP,
    VARIADIC,
    NotComputable,
    Part,
    as_bigint,
    kind_of,
)
from lakehouse.declaration.sql.parsed import (
    cast_type,
    castable,
    operands_of,
    require_short_replacement,
    shown_sql,
    time_literal,
)

_MAX_LITERAL_LENGTH = 12  # characters of an integer literal
_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")  # no week: the first of all began before it


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
