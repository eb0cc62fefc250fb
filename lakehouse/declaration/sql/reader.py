"""The parts of a computed column's SQL, one by one: the SQL that each becomes, and the kind of its result."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.declaration.sql.functions import (
    ALLOWED_ARGUMENTS,
    ARITHMETIC,
    BINARY_ARGUMENTS,
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
    column_part,
    kind_of,
)
from lakehouse.declaration.sql.literals import (
    cast_type,
    castable,
    literal,
    operands_of,
    require_kind,
    require_parentheses,
    require_short,
    require_short_replacement,
    shown_sql,
    time_literal,
)
from lakehouse.declaration.sql.parsed import quoted

if TYPE_CHECKING:
    from sqlglot import exp

_MAX_LITERAL_LENGTH = 12  # characters of an integer literal
_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")  # no week: the first of all began before it


class Reader:
    """Reads a parsed expression over columns of known types."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._readers: dict[str, Callable[[Any], Part]] = {
            **dict.fromkeys(FUNCTIONS, self._read_function),
            **dict.fromkeys(COMPARISONS, self._read_comparison),
            **dict.fromkeys(ARITHMETIC, self._read_arithmetic),
            **dict.fromkeys(VARIADIC, self._read_variadic),
            **dict.fromkeys(("And", "Or"), self._read_connective),
            **dict.fromkeys(("Cast", "TryCast"), self._read_cast),
            **dict.fromkeys(("Like", "ILike"), self._read_like),
            **dict.fromkeys(("Concat", "DPipe"), self._read_concat),
            **dict.fromkeys(("TimestampTrunc", "DateTrunc"), self._read_trunc),
            "Column": self._read_column,
            "Literal": literal,
            "Boolean": lambda node: Part("true" if node.this else "false", BOOLEAN),
            "Null": lambda _: Part("NULL", NULL),
            "Paren": lambda node: self.read(node.this),
            "Not": lambda node: Part(f"(NOT {self._read_as(node.this, BOOLEAN).sql})", BOOLEAN),
            "Neg": self._read_negative,
            "Abs": self._read_absolute,
            "Is": self._read_is,
            "In": self._read_in,
            "Between": self._read_between,
            "Case": self._read_case,
            "If": self._read_if,
            "Nullif": self._read_null_if,
            "Trim": self._read_trim,
            "TsOrDsToDate": self._read_day,
        }

    def read(self, node: "exp.Expr | None") -> Part:
        """The SQL of a part; ``NotComputable`` if the part is not supported."""
        if node is None:
            raise NotComputable("a function has too few arguments", "See the arguments of Spark's function.")
        name = type(node).__name__
        reader = self._readers.get(name)
        arguments = {argument for argument, value in node.args.items() if value}
        if reader is None or (name not in FUNCTIONS and arguments - ALLOWED_ARGUMENTS.get(name, BINARY_ARGUMENTS)):
            raise NotComputable(f"{shown_sql(node)} is not supported")
        return require_short(reader(node))

    def _read_as(self, node: "exp.Expr", *kinds: str) -> Part:
        """The SQL of a part that must have one of the kinds, or NULL."""
        part = self.read(node)
        require_kind(node, part, kinds)
        return cast_null(part, kinds[0])

    def _read_alike(self, nodes: Sequence["exp.Expr"]) -> tuple[list[str], str]:
        """The SQL of parts that must have a common kind, and that kind."""
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

    def _read_column(self, node: Any) -> Part:
        name = node.name.lower()
        if len(node.parts) > 1 or name not in self._columns:
            message = f"{node.sql('spark')} is not a column that is read from records"
            raise NotComputable(message, f"The columns are {', '.join(sorted(self._columns))}.")
        return column_part(name, self._columns[name])

    def _read_function(self, node: Any) -> Part:
        function = FUNCTIONS[type(node).__name__]
        arguments = {name for name, value in node.args.items() if value and name not in IGNORED_ARGUMENTS}
        if type(node).__name__ == "Initcap" and node.expression.sql("spark") == "' '":
            arguments -= {"expression"}  # which the parser adds
        required_names = {*function.arguments[: function.required_count]}
        if arguments - {*function.arguments} or not required_names <= arguments:
            raise NotComputable(f"{shown_sql(node)} has arguments that {function.name}() does not support")
        kinds = [pair for pair in zip(function.arguments, function.argument_kinds, strict=True) if pair[0] in arguments]
        parts = [self._read_argument(node.args[name], kind) for name, kind in kinds]
        if type(node).__name__ == "SplitPart" and parts[-1].sql == "0":
            raise NotComputable("split_part() counts from 1", "Write another number.")
        if type(node).__name__ == "Replace":
            require_short_replacement(node)
        if type(node).__name__ == "Round" and not 0 <= int(parts[-1].sql if len(parts) > 1 else 0) <= MAX_DIGITS:
            raise NotComputable(f"round() to {parts[-1].sql} places is not supported", "Write 0 to 38 places.")
        return Part(f"{function.name}({', '.join(part.sql for part in parts)})", function.result_kind or parts[0].kind)

    def _read_argument(self, node: Any, kinds: str | tuple[str, ...]) -> Part:
        if kinds == TIMES:
            return self._read_day(node)
        if kinds != INTEGER_LITERAL:
            return self._read_as(node, *((kinds,) if isinstance(kinds, str) else kinds))
        sql = node.sql("spark")
        is_integer = sql.isascii() and sql.removeprefix("-").isdecimal() and len(sql) < _MAX_LITERAL_LENGTH
        if not is_integer or abs(int(sql)) >= 2**31:
            raise NotComputable(f"{sql} is not an integer literal", "Write a number, for example left(name, 3).")
        return Part(str(int(sql)), INTEGER)

    def _read_comparison(self, node: Any) -> Part:
        require_parentheses(node.this, node.expression)
        (left, right), _ = self._read_alike([node.this, node.expression])
        return Part(f"({left} {COMPARISONS[type(node).__name__]} {right})", BOOLEAN)

    def _read_arithmetic(self, node: Any) -> Part:
        name = ARITHMETIC[type(node).__name__]
        left, right = (self._read_as(operand, *NUMBERS) for operand in (node.this, node.expression))
        kind = max(left.kind, right.kind, key=lambda kind: NUMBERS.index(kind) if kind in NUMBERS else -1)
        if name == "try_divide" and kind == INTEGER:
            kind = DOUBLE
        elif kind == INTEGER:  # in 64 bits; the cast to the type of the column checks whether the result fits
            return Part(f"{name}({as_bigint(left)}, {as_bigint(right)})", kind)
        return Part(f"{name}({left.sql}, {right.sql})", kind)

    def _read_variadic(self, node: Any) -> Part:
        parts, kind = self._read_alike([node.this, *node.expressions])
        if len(parts) < 2:
            raise NotComputable(f"{shown_sql(node)} has only one argument", "Write at least two.")
        return Part(f"{VARIADIC[type(node).__name__]}({', '.join(parts)})", kind)

    def _read_connective(self, node: Any) -> Part:
        parts = [self._read_as(operand, BOOLEAN).sql for operand in operands_of(node)]
        return Part(f"({f' {node.key.upper()} '.join(parts)})", BOOLEAN)

    def _read_negative(self, node: Any) -> Part:
        part = self._read_as(node.this, *NUMBERS)
        if type(node.this).__name__ == "Literal":
            return Part(f"-{part.sql}", part.kind)
        return Part(f"try_subtract(0, {as_bigint(part) if part.kind == INTEGER else part.sql})", part.kind)

    def _read_absolute(self, node: Any) -> Part:
        part = self._read_as(node.this, *NUMBERS)
        if part.kind == DECIMAL:  # above 34 digits, Spark's own abs() rounds, and fails if one more digit is needed
            return Part(f"IF({part.sql} < 0, try_subtract(0, {part.sql}), {part.sql})", DECIMAL)
        if part.kind == INTEGER:
            return Part(f"try_cast(abs(try_cast({part.sql} AS DECIMAL(20,0))) AS BIGINT)", INTEGER)
        return Part(f"abs({part.sql})", part.kind)

    def _read_is(self, node: Any) -> Part:
        require_parentheses(node.this)
        operand_type = type(node.expression).__name__
        if operand_type not in ("Null", "Boolean"):
            raise NotComputable(f"{shown_sql(node)} is not supported")
        part = self.read(node.this) if operand_type == "Null" else self._read_as(node.this, BOOLEAN)
        return Part(f"({part.sql} IS {self.read(node.expression).sql})", BOOLEAN)

    def _read_in(self, node: Any) -> Part:
        require_parentheses(node.this)
        if not node.expressions:
            raise NotComputable(f"{shown_sql(node)} is not supported")
        (value, *options), _ = self._read_alike([node.this, *node.expressions])
        return Part(f"({value} IN ({', '.join(options)}))", BOOLEAN)

    def _read_between(self, node: Any) -> Part:
        require_parentheses(node.this, node.args["low"], node.args["high"])
        (value, low, high), _ = self._read_alike([node.this, node.args["low"], node.args["high"]])
        return Part(f"({value} BETWEEN {low} AND {high})", BOOLEAN)

    def _read_like(self, node: Any) -> Part:
        require_parentheses(node.this)
        pattern = node.expression
        if type(pattern).__name__ != "Literal" or not pattern.is_string or "\\" in pattern.this:
            raise NotComputable(f"{shown_sql(node)} is not supported", "Write a string literal without a backslash.")
        # for two of them, Spark tries every split of the string, which takes hours for a long one
        if len(re.findall("%+", pattern.this.rstrip("%"))) > 1:
            action = "Write one % before the last word. For more, combine LIKE with AND, or use contains()."
            raise NotComputable(f"{shown_sql(node)} has two % before its last word", action)
        operator = f"{'NOT ' if node.args.get('negate') else ''}{type(node).__name__.upper()}"
        return Part(f"({self._read_as(node.this, STRING).sql} {operator} {quoted(pattern.this)})", BOOLEAN)

    def _read_concat(self, node: Any) -> Part:
        operands = node.expressions if type(node).__name__ == "Concat" else operands_of(node)
        parts = [self._read_as(operand, STRING) for operand in operands]
        return Part(f"concat({', '.join(part.sql for part in parts)})", STRING)

    def _read_trim(self, node: Any) -> Part:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
        return Part(f"{name}({self._read_as(node.this, STRING).sql})", STRING)

    def _read_case(self, node: Any) -> Part:
        branches = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        values, kind = self._read_alike([*branches, *([default] if default else [])])
        conditions = [branch.this for branch in node.args["ifs"]]
        if node.this:
            (subject, *tests), _ = self._read_alike([node.this, *conditions])
        else:
            subject, tests = "", [self._read_as(condition, BOOLEAN).sql for condition in conditions]
        when = " ".join(f"WHEN {test} THEN {value}" for test, value in zip(tests, values, strict=False))
        return Part(f"CASE {subject} {when}{f' ELSE {values[-1]}' if default else ''} END", kind)

    def _read_if(self, node: Any) -> Part:
        default = node.args.get("false")
        values, kind = self._read_alike([node.args["true"], *([default] if default else [])])
        choices = ", ".join(values if default else [*values, "NULL"])
        return Part(f"IF({self._read_as(node.this, BOOLEAN).sql}, {choices})", kind)

    def _read_null_if(self, node: Any) -> Part:
        parts, kind = self._read_alike([node.this, node.expression])
        return Part(f"nullif({', '.join(parts)})", kind)

    def _read_day(self, node: Any) -> Part:
        part = self._read_as(node.this if type(node).__name__ == "TsOrDsToDate" else node, *TIMES)
        return part if part.kind == DATE else Part(f"CAST({part.sql} AS DATE)", DATE)

    def _read_trunc(self, node: Any) -> Part:
        unit = str(node.args["unit"].this).upper()
        name, kind = ("date_trunc", TIMESTAMP) if type(node).__name__ == "TimestampTrunc" else ("trunc", DATE)
        units = _UNITS if kind == TIMESTAMP else _UNITS[:3]
        if unit not in units:
            raise NotComputable(f"{name}() by {unit} is not supported", f"The units are {', '.join(units)}.")
        part = self._read_as(node.this, kind).sql
        return Part(f"date_trunc('{unit}', {part})" if kind == TIMESTAMP else f"trunc({part}, '{unit}')", kind)

    def _read_cast(self, node: Any) -> Part:
        type_ = cast_type(node)
        kind = kind_of(type_)
        if type(node.this).__name__ == "Literal" and node.this.is_string and kind in TIMES:
            return Part(time_literal(node.this.this, type_), kind)
        part = self._read_as(node.this, *CASTS[kind])
        sql = castable(part.sql) if (part.kind, kind) == (STRING, DECIMAL) else part.sql
        return Part(f"try_cast({sql} AS {type_})", kind)
