"""The kinds of values in computed columns, and the functions over them that give a value or NULL, and never fail."""

from typing import NamedTuple

TEXT, TRUTH, WHOLE, DECIMAL, DOUBLE = "a text", "true or false", "a whole number", "a decimal", "a double"
DAY, MOMENT, NULL = "a day", "a time", "NULL"
NUMBERS = (WHOLE, DECIMAL, DOUBLE)  # each is taken for those behind it
TIMES = (DAY, MOMENT)
COUNT = "a whole number that is written"
KINDS = {"STRING": TEXT, "BOOLEAN": TRUTH, "INT": WHOLE, "BIGINT": WHOLE, "DOUBLE": DOUBLE, "DATE": DAY}
KINDS |= {"TIMESTAMP": MOMENT}
CASTS: dict[str, tuple[str, ...]] = dict.fromkeys(NUMBERS, (TEXT, TRUTH, *NUMBERS))
CASTS |= {TEXT: (TEXT, TRUTH, *NUMBERS, *TIMES), TRUTH: (TEXT, TRUTH), DAY: TIMES, MOMENT: TIMES}
"""The kinds of which a cast makes another."""
MOST_DIGITS = 38


def kind_of(type_: str) -> str:
    """The kind of the values of a declared type."""
    return KINDS.get(type_, DECIMAL)


_KNOWN = "docs/vocabulary.md lists what a computed column may be: write it with that."


class NotComputable(Exception):  # noqa: N818 - a fact about a declaration, raised as a DeclarationError by others
    """A piece of SQL is none that a computed column can have: a fact, and what to do."""

    def __init__(self, fact: str, action: str = _KNOWN) -> None:
        super().__init__(fact, action)
        self.problem = fact, action


class Part(NamedTuple):
    """A piece of Spark's SQL that cannot fail, and the kind of what it gives."""

    sql: str
    kind: str


def wide(part: Part) -> str:
    """A whole number in 64 bits."""
    return f"CAST({part.sql} AS BIGINT)"


def typed(part: Part, kind: str) -> Part:
    """A part of that kind where it is NULL, which has no type of its own."""
    if part.kind != NULL or kind == NULL:
        return part
    # the least decimal: beside a wide one, another would lose its places
    type_ = next((name for name, each in KINDS.items() if each == kind), "DECIMAL(1,0)")
    return Part(f"CAST({part.sql} AS {type_})", kind)


class Function(NamedTuple):
    """A function of Spark, the names under which the parser keeps what it is given, their kinds, and what it gives."""

    name: str
    given: tuple[str, ...]
    takes: tuple[str | tuple[str, ...], ...]
    gives: str
    needs: int = 9  # so many of what it is given; the others may be left out


def _of_text(name: str, gives: str = TEXT, *more: tuple[str, str], needs: int = 9) -> Function:
    return Function(name, ("this", *(each for each, _ in more)), (TEXT, *(kind for _, kind in more)), gives, needs)


def _of_time(name: str, takes: str | tuple[str, ...], gives: str = WHOLE) -> Function:
    return Function(name, ("this",), (takes,), gives)


_TWO = ("expression", TEXT)
FUNCTIONS = {
    "Upper": _of_text("upper"),
    "Lower": _of_text("lower"),
    "Initcap": _of_text("initcap"),
    "MD5": _of_text("md5"),
    "Length": _of_text("length", WHOLE),
    "Contains": _of_text("contains", TRUTH, _TWO),
    "StartsWith": _of_text("startswith", TRUTH, _TWO),
    "EndsWith": _of_text("endswith", TRUTH, _TWO),
    "Replace": _of_text("replace", TEXT, _TWO, ("replacement", TEXT)),
    "Left": _of_text("left", TEXT, ("expression", COUNT)),
    "Right": _of_text("right", TEXT, ("expression", COUNT)),
    "Substring": _of_text("substring", TEXT, ("start", COUNT), ("length", COUNT), needs=2),
    "SplitPart": _of_text("split_part", TEXT, ("delimiter", TEXT), ("part_index", COUNT)),
    "StrPosition": _of_text("instr", WHOLE, ("substr", TEXT)),
    "Year": _of_time("year", DAY),
    "Quarter": _of_time("quarter", TIMES),
    "Month": _of_time("month", DAY),
    "Day": _of_time("day", DAY),
    "DayOfMonth": _of_time("day", DAY),
    "DayOfWeek": _of_time("dayofweek", DAY),
    "DayOfYear": _of_time("dayofyear", DAY),
    "WeekOfYear": _of_time("weekofyear", DAY),
    "LastDay": _of_time("last_day", TIMES, DAY),
    "Hour": _of_time("hour", MOMENT),
    "Minute": _of_time("minute", MOMENT),
    "Second": _of_time("second", MOMENT),
    "UnixSeconds": _of_time("unix_seconds", MOMENT),
    "UnixMillis": _of_time("unix_millis", MOMENT),
    "UnixMicros": _of_time("unix_micros", MOMENT),
    "DateDiff": Function("datediff", ("this", "expression"), (DAY, DAY), WHOLE),
    "Floor": Function("floor", ("this",), ((WHOLE, DECIMAL),), DECIMAL),
    "Ceil": Function("ceil", ("this",), ((WHOLE, DECIMAL),), DECIMAL),
    "Round": Function("round", ("this", "decimals"), (NUMBERS, COUNT), "", needs=1),
}
COMPARISONS = {"EQ": "=", "NEQ": "<>", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<=", "NullSafeEQ": "<=>"}
ARITHMETIC = {"Add": "try_add", "Sub": "try_subtract", "Mul": "try_multiply", "Div": "try_divide", "Mod": "try_mod"}
ARITHMETIC |= {f"Safe{name}": ARITHMETIC[full] for name, full in {"Add": "Add", "Subtract": "Sub"}.items()}
ARITHMETIC |= {"SafeMultiply": "try_multiply", "SafeDivide": "try_divide"}
OF_SOME = {"Coalesce": "coalesce", "Greatest": "greatest", "Least": "least"}
# said of a function by the parser, and of no meaning here
ASIDE = {"safe", "typed"}
OF_TWO = {"this", "expression", *ASIDE}
# what else there may be: of anything more, nobody knows what it means
SAID = {
    "Literal": {"this", "is_string"},
    "Column": {"this", "table", "db", "catalog"},  # looked at there
    "Case": {"this", "ifs", "default"},
    "If": {"this", "true", "false"},
    "In": {"this", "expressions"},
    "Between": {"this", "low", "high"},
    "Like": {*OF_TWO, "negate"},
    "ILike": {*OF_TWO, "negate"},
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
BESIDE = {*COMPARISONS, "Between", "In", "Like", "ILike", "Is", "Not"}
