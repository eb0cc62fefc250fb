"""The kinds of values in computed columns, and the functions over them that return a value or NULL and never fail."""

from typing import NamedTuple

STRING, BOOLEAN, INTEGER, DECIMAL, DOUBLE = "a string", "a boolean", "an integer", "a decimal", "a double"
DATE, TIMESTAMP, NULL = "a date", "a timestamp", "NULL"
NUMBERS = (INTEGER, DECIMAL, DOUBLE)  # each is accepted in place of the ones after it
TIMES = (DATE, TIMESTAMP)
INTEGER_LITERAL = "an integer literal"
KINDS = {"STRING": STRING, "BOOLEAN": BOOLEAN, "INT": INTEGER, "BIGINT": INTEGER, "DOUBLE": DOUBLE, "DATE": DATE}
KINDS |= {"TIMESTAMP": TIMESTAMP}
CASTS: dict[str, tuple[str, ...]] = dict.fromkeys(NUMBERS, (STRING, BOOLEAN, *NUMBERS))
CASTS |= {STRING: (STRING, BOOLEAN, *NUMBERS, *TIMES), BOOLEAN: (STRING, BOOLEAN), DATE: TIMES, TIMESTAMP: TIMES}
"""Per kind, the kinds that can be cast to it."""
MAX_DIGITS = 38


def kind_of(type_: str) -> str:
    """The kind of the values of a declared type."""
    return KINDS.get(type_, DECIMAL)


NO_BYTES = "No SQL of a declaration reads bytes. Compute it where the table is read."
"""What to do if SQL reads a BINARY column."""
_SUPPORTED = (
    "Use only the functions and operators that the page Declaration of the documentation lists for computed columns."
)


class NotComputable(Exception):  # noqa: N818 - describes a declaration; callers raise it as a DeclarationError
    """A piece of SQL is not supported in a computed column; ``problem`` is what is wrong, and what to do."""

    def __init__(self, message: str, action: str = _SUPPORTED) -> None:
        super().__init__(message, action)
        self.problem = message, action


class Part(NamedTuple):
    """A piece of Spark SQL that cannot fail, and the kind of its result."""

    sql: str
    kind: str


def column_part(name: str, type_: str) -> Part:
    """The part that reads a column of a type."""
    if type_ == "BINARY":
        raise NotComputable(f"{name} is BINARY", NO_BYTES)
    return Part(f"`{name}`", kind_of(type_))


def as_bigint(part: Part) -> str:
    """SQL of an integer in 64 bits."""
    return f"CAST({part.sql} AS BIGINT)"


def cast_null(part: Part, kind: str) -> Part:
    """The part; a NULL, which has no type of its own, is cast to that kind."""
    if part.kind != NULL or kind == NULL:
        return part
    # the smallest decimal: next to a wide one, a larger one would cost decimal places
    type_ = next((name for name, kind_name in KINDS.items() if kind_name == kind), "DECIMAL(1,0)")
    return Part(f"CAST({part.sql} AS {type_})", kind)


class Function(NamedTuple):
    """A function of Spark: the parser's names of its arguments, their kinds, and the kind of its result."""

    name: str
    arguments: tuple[str, ...]
    argument_kinds: tuple[str | tuple[str, ...], ...]
    result_kind: str
    required_count: int = 9  # how many arguments are required; the others are optional


def _string_function(
    name: str, result_kind: str = STRING, *other_arguments: tuple[str, str], required_count: int = 9
) -> Function:
    arguments, kinds = (
        ("this", *(argument for argument, _ in other_arguments)),
        (STRING, *(kind for _, kind in other_arguments)),
    )
    return Function(name, arguments, kinds, result_kind, required_count)


def _time_function(name: str, kinds: str | tuple[str, ...], result_kind: str = INTEGER) -> Function:
    return Function(name, ("this",), (kinds,), result_kind)


_SECOND_STRING = ("expression", STRING)
FUNCTIONS = {
    "Upper": _string_function("upper"),
    "Lower": _string_function("lower"),
    "Initcap": _string_function("initcap"),
    "MD5": _string_function("md5"),
    "Length": _string_function("length", INTEGER),
    "Contains": _string_function("contains", BOOLEAN, _SECOND_STRING),
    "StartsWith": _string_function("startswith", BOOLEAN, _SECOND_STRING),
    "EndsWith": _string_function("endswith", BOOLEAN, _SECOND_STRING),
    "Replace": _string_function("replace", STRING, _SECOND_STRING, ("replacement", STRING)),
    "Left": _string_function("left", STRING, ("expression", INTEGER_LITERAL)),
    "Right": _string_function("right", STRING, ("expression", INTEGER_LITERAL)),
    "Substring": _string_function(
        "substring", STRING, ("start", INTEGER_LITERAL), ("length", INTEGER_LITERAL), required_count=2
    ),
    "SplitPart": _string_function("split_part", STRING, ("delimiter", STRING), ("part_index", INTEGER_LITERAL)),
    "StrPosition": _string_function("instr", INTEGER, ("substr", STRING)),
    "Year": _time_function("year", DATE),
    "Quarter": _time_function("quarter", TIMES),
    "Month": _time_function("month", DATE),
    "Day": _time_function("day", DATE),
    "DayOfMonth": _time_function("day", DATE),
    "DayOfWeek": _time_function("dayofweek", DATE),
    "DayOfYear": _time_function("dayofyear", DATE),
    "WeekOfYear": _time_function("weekofyear", DATE),
    "LastDay": _time_function("last_day", TIMES, DATE),
    "Hour": _time_function("hour", TIMESTAMP),
    "Minute": _time_function("minute", TIMESTAMP),
    "Second": _time_function("second", TIMESTAMP),
    "UnixSeconds": _time_function("unix_seconds", TIMESTAMP),
    "UnixMillis": _time_function("unix_millis", TIMESTAMP),
    "UnixMicros": _time_function("unix_micros", TIMESTAMP),
    "DateDiff": Function("datediff", ("this", "expression"), (DATE, DATE), INTEGER),
    "Floor": Function("floor", ("this",), ((INTEGER, DECIMAL),), DECIMAL),
    "Ceil": Function("ceil", ("this",), ((INTEGER, DECIMAL),), DECIMAL),
    "Round": Function("round", ("this", "decimals"), (NUMBERS, INTEGER_LITERAL), "", required_count=1),
}
COMPARISONS = {"EQ": "=", "NEQ": "<>", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<=", "NullSafeEQ": "<=>"}
ARITHMETIC = {"Add": "try_add", "Sub": "try_subtract", "Mul": "try_multiply", "Div": "try_divide", "Mod": "try_mod"}
ARITHMETIC |= {f"Safe{name}": ARITHMETIC[full] for name, full in {"Add": "Add", "Subtract": "Sub"}.items()}
ARITHMETIC |= {"SafeMultiply": "try_multiply", "SafeDivide": "try_divide"}
VARIADIC = {"Coalesce": "coalesce", "Greatest": "greatest", "Least": "least"}
# arguments that the parser adds and that have no meaning here
IGNORED_ARGUMENTS = {"safe", "typed"}
BINARY_ARGUMENTS = {"this", "expression", *IGNORED_ARGUMENTS}
# the arguments that other nodes may have: a node with any other argument is refused, because its meaning is unknown
ALLOWED_ARGUMENTS = {
    "Literal": {"this", "is_string"},
    "Column": {"this", "table", "db", "catalog"},  # checked when the column is read
    "Case": {"this", "ifs", "default"},
    "If": {"this", "true", "false"},
    "In": {"this", "expressions"},
    "Between": {"this", "low", "high"},
    "Like": {*BINARY_ARGUMENTS, "negate"},
    "ILike": {*BINARY_ARGUMENTS, "negate"},
    "Trim": {"this", "position"},
    "Concat": {"expressions", "safe"},
    "Coalesce": {"this", "expressions"},
    "Greatest": {"this", "expressions", "ignore_nulls"},
    "Least": {"this", "expressions", "ignore_nulls"},
    "Cast": {"this", "to"},
    "TryCast": {"this", "to", "safe"},
    "TimestampTrunc": {"this", "unit"},
    "DateTrunc": {"this", "unit"},
}
COMPARISON_NODES = {*COMPARISONS, "Between", "In", "Like", "ILike", "Is", "Not"}
