"""The parts of a computed column's SQL, one by one: what each becomes, and the kind of what it gives."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.declaration.sql.functions import (
    ARITHMETIC,
    ASIDE,
    CASTS,
    COMPARISONS,
    COUNT,
    DAY,
    DECIMAL,
    DOUBLE,
    FUNCTIONS,
    MOMENT,
    MOST_DIGITS,
    NULL,
    NUMBERS,
    OF_SOME,
    OF_TWO,
    SAID,
    TEXT,
    TIMES,
    TRUTH,
    WHOLE,
    NotComputable,
    Part,
    kind_of,
    typed,
    wide,
)
from lakehouse.declaration.sql.literals import (
    cast_type,
    castable,
    chain_of,
    literal,
    require_apart,
    require_short,
    require_written,
    time_literal,
    written_as,
)
from lakehouse.declaration.sql.parsed import quoted

if TYPE_CHECKING:
    from sqlglot import exp

_LONG = 12  # characters of a number that counts
_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")  # no week: the first of all began before it


class Reader:
    """Reads a parsed expression over columns of known types."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._forms: dict[str, Callable[[Any], Part]] = {
            **dict.fromkeys(FUNCTIONS, self._function),
            **dict.fromkeys(COMPARISONS, self._comparison),
            **dict.fromkeys(ARITHMETIC, self._arithmetic),
            **dict.fromkeys(OF_SOME, self._of_some),
            **dict.fromkeys(("And", "Or"), self._both),
            **dict.fromkeys(("Cast", "TryCast"), self._cast),
            **dict.fromkeys(("Like", "ILike"), self._like),
            **dict.fromkeys(("Concat", "DPipe"), self._concat),
            **dict.fromkeys(("TimestampTrunc", "DateTrunc"), self._trunc),
            "Column": self._column,
            "Literal": literal,
            "Boolean": lambda node: Part("true" if node.this else "false", TRUTH),
            "Null": lambda _: Part("NULL", NULL),
            "Paren": lambda node: self.read(node.this),
            "Not": lambda node: Part(f"(NOT {self._of(node.this, TRUTH).sql})", TRUTH),
            "Neg": self._negative,
            "Abs": self._absolute,
            "Is": self._is,
            "In": self._in,
            "Between": self._between,
            "Case": self._case,
            "If": self._if,
            "Nullif": self._null_if,
            "Trim": self._trim,
            "TsOrDsToDate": self._day,
        }

    def read(self, node: "exp.Expr | None") -> Part:
        """The SQL of a part; ``NotComputable`` where it is none of those that are listed."""
        if node is None:
            raise NotComputable("a function is given too little", "See what Spark's function of that name takes.")
        name = type(node).__name__
        form = self._forms.get(name)
        said = {each for each, value in node.args.items() if value}
        if form is None or (name not in FUNCTIONS and said - SAID.get(name, OF_TWO)):
            raise NotComputable(f"{written_as(node)} is not known there")
        return require_short(form(node))

    def _of(self, node: "exp.Expr", *kinds: str) -> Part:
        """The SQL of a part that has to be of one of the kinds, or NULL."""
        part = self.read(node)
        if part.kind not in (*kinds, NULL):
            raise NotComputable(f"{written_as(node)} is {part.kind}, where {' or '.join(kinds)} has to be")
        return typed(part, kinds[0])

    def _alike(self, nodes: Sequence["exp.Expr"]) -> tuple[list[str], str]:
        """The SQL of parts that can stand for each other, and the kind of all of them."""
        parts = [self.read(node) for node in nodes]
        kinds = {part.kind for part in parts} - {NULL}
        if kinds <= {*NUMBERS}:
            kind = max(kinds, key=NUMBERS.index, default=NULL)
        elif len(kinds) == 1:
            (kind,) = kinds
        else:
            written = ", ".join(f"{written_as(node)} ({part.kind})" for node, part in zip(nodes, parts, strict=True))
            raise NotComputable(
                f"these do not go together: {written}",
                "Nothing is converted by itself: CAST one; unix_seconds() makes a number of a TIMESTAMP.",
            )
        return [typed(part, kind).sql for part in parts], kind

    def _column(self, node: Any) -> Part:
        name = node.name.lower()
        if len(node.parts) > 1 or name not in self._columns:
            known = ", ".join(sorted(self._columns))
            raise NotComputable(f"it names no column that records tell: {node.sql('spark')}", f"There are {known}.")
        return Part(f"`{name}`", kind_of(self._columns[name]))

    def _function(self, node: Any) -> Part:
        function = FUNCTIONS[type(node).__name__]
        said = {name for name, value in node.args.items() if value and name not in ASIDE}
        if type(node).__name__ == "Initcap" and node.expression.sql("spark") == "' '":
            said -= {"expression"}  # the parser's own
        if said - {*function.given} or not {*function.given[: function.needs]} <= said:
            raise NotComputable(f"{written_as(node)} is not what {function.name}() takes there")
        given = [each for each in zip(function.given, function.takes, strict=True) if each[0] in said]
        parts = [self._given(node.args[name], takes) for name, takes in given]
        if type(node).__name__ == "SplitPart" and parts[-1].sql == "0":
            raise NotComputable("split_part() counts from 1", "Write another number.")
        if type(node).__name__ == "Replace":
            require_written(node)
        if type(node).__name__ == "Round" and not 0 <= int(parts[-1].sql if len(parts) > 1 else 0) <= MOST_DIGITS:
            raise NotComputable(f"round() to {parts[-1].sql} places is not known there", "Write 0 to 38 of them.")
        return Part(f"{function.name}({', '.join(part.sql for part in parts)})", function.gives or parts[0].kind)

    def _given(self, node: Any, takes: str | tuple[str, ...]) -> Part:
        if takes == TIMES:
            return self._day(node)
        if takes != COUNT:
            return self._of(node, *((takes,) if isinstance(takes, str) else takes))
        written = node.sql("spark")
        plain = written.isascii() and written.removeprefix("-").isdecimal() and len(written) < _LONG
        if not plain or abs(int(written)) >= 2**31:
            raise NotComputable(f"{written} is no whole number that is written out", "Write one, as left(name, 3).")
        return Part(str(int(written)), WHOLE)

    def _comparison(self, node: Any) -> Part:
        require_apart(node.this, node.expression)
        (left, right), _ = self._alike([node.this, node.expression])
        return Part(f"({left} {COMPARISONS[type(node).__name__]} {right})", TRUTH)

    def _arithmetic(self, node: Any) -> Part:
        name = ARITHMETIC[type(node).__name__]
        left, right = (self._of(each, *NUMBERS) for each in (node.this, node.expression))
        kind = max(left.kind, right.kind, key=lambda each: NUMBERS.index(each) if each in NUMBERS else -1)
        if name == "try_divide" and kind == WHOLE:
            kind = DOUBLE
        elif kind == WHOLE:  # as wide as whole numbers are: that the column is too narrow is told at its end
            return Part(f"{name}({wide(left)}, {wide(right)})", kind)
        return Part(f"{name}({left.sql}, {right.sql})", kind)

    def _of_some(self, node: Any) -> Part:
        parts, kind = self._alike([node.this, *node.expressions])
        if len(parts) < 2:
            raise NotComputable(f"{written_as(node)} is given one", "Give it two.")
        return Part(f"{OF_SOME[type(node).__name__]}({', '.join(parts)})", kind)

    def _both(self, node: Any) -> Part:
        parts = [self._of(each, TRUTH).sql for each in chain_of(node)]
        return Part(f"({f' {node.key.upper()} '.join(parts)})", TRUTH)

    def _negative(self, node: Any) -> Part:
        part = self._of(node.this, *NUMBERS)
        written = type(node.this).__name__ == "Literal"
        if written:
            return Part(f"-{part.sql}", part.kind)
        return Part(f"try_subtract(0, {wide(part) if part.kind == WHOLE else part.sql})", part.kind)

    def _absolute(self, node: Any) -> Part:
        part = self._of(node.this, *NUMBERS)
        if part.kind == DECIMAL:  # of more than 34 digits, Spark's own rounds, and fails where one more is needed
            return Part(f"IF({part.sql} < 0, try_subtract(0, {part.sql}), {part.sql})", DECIMAL)
        if part.kind == WHOLE:
            return Part(f"try_cast(abs(try_cast({part.sql} AS DECIMAL(20,0))) AS BIGINT)", WHOLE)
        return Part(f"abs({part.sql})", part.kind)

    def _is(self, node: Any) -> Part:
        require_apart(node.this)
        what = type(node.expression).__name__
        if what not in ("Null", "Boolean"):
            raise NotComputable(f"{written_as(node)} is not known there")
        part = self.read(node.this) if what == "Null" else self._of(node.this, TRUTH)
        return Part(f"({part.sql} IS {self.read(node.expression).sql})", TRUTH)

    def _in(self, node: Any) -> Part:
        require_apart(node.this)
        if not node.expressions:
            raise NotComputable(f"{written_as(node)} is not known there")
        (one, *several), _ = self._alike([node.this, *node.expressions])
        return Part(f"({one} IN ({', '.join(several)}))", TRUTH)

    def _between(self, node: Any) -> Part:
        require_apart(node.this, node.args["low"], node.args["high"])
        (one, low, high), _ = self._alike([node.this, node.args["low"], node.args["high"]])
        return Part(f"({one} BETWEEN {low} AND {high})", TRUTH)

    def _like(self, node: Any) -> Part:
        require_apart(node.this)
        pattern = node.expression
        if type(pattern).__name__ != "Literal" or not pattern.is_string or "\\" in pattern.this:
            raise NotComputable(f"{written_as(node)} is not known there", "A pattern is a text without a backslash.")
        # of two, Spark tries every split of a text: hours for a long one
        if len(re.findall("%+", pattern.this.rstrip("%"))) > 1:
            action = "Write one % before the last word, and more of them with AND, or contains()."
            raise NotComputable(f"{written_as(node)} has two % before its last word", action)
        said = f"{'NOT ' if node.args.get('negate') else ''}{type(node).__name__.upper()}"
        return Part(f"({self._of(node.this, TEXT).sql} {said} {quoted(pattern.this)})", TRUTH)

    def _concat(self, node: Any) -> Part:
        given = node.expressions if type(node).__name__ == "Concat" else chain_of(node)
        parts = [self._of(each, TEXT) for each in given]
        return Part(f"concat({', '.join(part.sql for part in parts)})", TEXT)

    def _trim(self, node: Any) -> Part:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
        return Part(f"{name}({self._of(node.this, TEXT).sql})", TEXT)

    def _case(self, node: Any) -> Part:
        branches = [each.args["true"] for each in node.args["ifs"]]
        default = node.args.get("default")
        values, kind = self._alike([*branches, *([default] if default else [])])
        tests = [each.this for each in node.args["ifs"]]
        if node.this:
            (one, *asked), _ = self._alike([node.this, *tests])
        else:
            one, asked = "", [self._of(each, TRUTH).sql for each in tests]
        when = " ".join(f"WHEN {test} THEN {value}" for test, value in zip(asked, values, strict=False))
        return Part(f"CASE {one} {when}{f' ELSE {values[-1]}' if default else ''} END", kind)

    def _if(self, node: Any) -> Part:
        other = node.args.get("false")
        values, kind = self._alike([node.args["true"], *([other] if other else [])])
        return Part(f"IF({self._of(node.this, TRUTH).sql}, {', '.join(values if other else [*values, 'NULL'])})", kind)

    def _null_if(self, node: Any) -> Part:
        parts, kind = self._alike([node.this, node.expression])
        return Part(f"nullif({', '.join(parts)})", kind)

    def _day(self, node: Any) -> Part:
        part = self._of(node.this if type(node).__name__ == "TsOrDsToDate" else node, *TIMES)
        return part if part.kind == DAY else Part(f"CAST({part.sql} AS DATE)", DAY)

    def _trunc(self, node: Any) -> Part:
        unit = str(node.args["unit"].this).upper()
        name, kind = ("date_trunc", MOMENT) if type(node).__name__ == "TimestampTrunc" else ("trunc", DAY)
        if unit not in (_UNITS if kind == MOMENT else _UNITS[:3]):
            known = ", ".join(_UNITS if kind == MOMENT else _UNITS[:3])
            raise NotComputable(f"{name}() by {unit} is not known there", f"There are {known}.")
        part = self._of(node.this, kind).sql
        return Part(f"date_trunc('{unit}', {part})" if kind == MOMENT else f"trunc({part}, '{unit}')", kind)

    def _cast(self, node: Any) -> Part:
        type_ = cast_type(node)
        kind = kind_of(type_)
        if type(node.this).__name__ == "Literal" and node.this.is_string and kind in TIMES:
            return Part(time_literal(node.this.this, type_), kind)
        part = self._of(node.this, *CASTS[kind])
        written = castable(part.sql) if (part.kind, kind) == (TEXT, DECIMAL) else part.sql
        return Part(f"try_cast({written} AS {type_})", kind)
