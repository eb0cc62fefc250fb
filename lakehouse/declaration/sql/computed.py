"""SQL of a computed column → SQL that returns a value or NULL for every possible record.

Spark fails a batch at the first row that cannot be computed. So the supported functions and operators are listed, with
the kinds of their arguments and results. Arithmetic and casts become variants that return NULL, and there are no
implicit conversions. Everything else is refused when the table is declared.
"""

from collections.abc import Callable, Mapping
from typing import Any

from lakehouse.declaration.sql import operations
from lakehouse.declaration.sql.functions import (
    ALLOWED_ARGUMENTS,
    ARITHMETIC,
    BINARY_ARGUMENTS,
    BOOLEAN,
    CASTS,
    COMPARISONS,
    DECIMAL,
    FUNCTIONS,
    INTEGER,
    KINDS,
    NULL,
    NUMBERS,
    VARIADIC,
    NotComputable,
    Part,
    column_part,
    kind_of,
)
from lakehouse.declaration.sql.operations import PartReader
from lakehouse.declaration.sql.parsed import (
    EXPRESSION,
    dropped_parts,
    literal,
    parse_expression,
    require_bounded,
    require_short,
    shown_sql,
)
from lakehouse.declaration.sql.parser import exp

NO_PLACES: Mapping[str, str] = {}


class Reader(PartReader):
    """Reads every part that is supported."""

    def read(self, node: "exp.Expr | None") -> Part:
        """The SQL of a part; ``NotComputable`` if the part is not supported."""
        if node is None:
            raise NotComputable("a function has too few arguments", "See the arguments of Spark's function.")
        name = type(node).__name__
        read_part = _READERS.get(name)
        arguments = {argument for argument, value in node.args.items() if value}
        if read_part is None or (name not in FUNCTIONS and arguments - ALLOWED_ARGUMENTS.get(name, BINARY_ARGUMENTS)):
            raise NotComputable(f"{shown_sql(node)} is not supported")
        return require_short(read_part(self, node))


def _read_column(reader: PartReader, node: Any) -> Part:
    name = node.name.lower()
    if len(node.parts) > 1 or name not in reader.columns:
        message = f"{node.sql('spark')} is not a column that is read from records"
        raise NotComputable(message, f"The columns are {', '.join(sorted(reader.columns))}.")
    part = column_part(name, reader.columns[name])
    return part._replace(sql=reader.places.get(name, part.sql))


_READERS: dict[str, Callable[[PartReader, Any], Part]] = {
    **dict.fromkeys(FUNCTIONS, operations.read_function),
    **dict.fromkeys(COMPARISONS, operations.read_comparison),
    **dict.fromkeys(ARITHMETIC, operations.read_arithmetic),
    **dict.fromkeys(VARIADIC, operations.read_variadic),
    **dict.fromkeys(("And", "Or"), operations.read_connective),
    **dict.fromkeys(("Cast", "TryCast"), operations.read_cast),
    **dict.fromkeys(("Like", "ILike"), operations.read_like),
    **dict.fromkeys(("Concat", "DPipe"), operations.read_concat),
    **dict.fromkeys(("TimestampTrunc", "DateTrunc"), operations.read_trunc),
    "Column": _read_column,
    "Literal": lambda _, node: literal(node),
    "Boolean": lambda _, node: Part("true" if node.this else "false", BOOLEAN),
    "Null": lambda _, __: Part("NULL", NULL),
    "Paren": lambda reader, node: reader.read(node.this),
    "Not": lambda reader, node: Part(f"(NOT {reader.read_as(node.this, BOOLEAN).sql})", BOOLEAN),
    "Neg": operations.read_negative,
    "Abs": operations.read_absolute,
    "Is": operations.read_is,
    "In": operations.read_in,
    "Between": operations.read_between,
    "Case": operations.read_case,
    "If": operations.read_if,
    "Nullif": operations.read_null_if,
    "Trim": operations.read_trim,
    "TsOrDsToDate": operations.read_day,
}


def computed_sql(sql: str, type_: str, columns: Mapping[str, str], places: Mapping[str, str] = NO_PLACES) -> str:
    """Convert the SQL of a computed column, over columns of known types, to Spark SQL that no record can make fail.

    ``places`` is Spark SQL in place of the names of columns. The result is NULL if nothing can be computed. Raises
    ``NotComputable`` if the SQL is not supported.
    """
    try:
        root = parse_expression(sql)
        if root is not None:
            lost_parts = dropped_parts(sql, root)
            if lost_parts:
                raise NotComputable(f"unsupported part: {lost_parts}", "Remove it, or use another function.")
            return _convert_expression(root, type_, Reader(columns, places))
    except RecursionError:
        raise NotComputable("the expression is nested too deeply", "Write it with fewer levels.") from None
    raise NotComputable("this is not a SQL expression", EXPRESSION)


def _convert_expression(root: "exp.Expr", type_: str, reader: Reader) -> str:
    """Spark SQL for a column of a type; it returns NULL if nothing can be computed.

    Raises ``NotComputable``.
    """
    part = reader.read(root)
    require_bounded(root)
    column_kind = kind_of(type_)
    is_compatible = part.kind in (column_kind, NULL) or (
        part.kind in NUMBERS and column_kind in NUMBERS and (column_kind != INTEGER or part.kind == INTEGER)
    )
    if not is_compatible:
        message = f"the expression returns {part.kind}, but the column is {type_}"
        raise NotComputable(message, _advise_cast(part.kind, type_))
    cast = f"try_cast({part.sql} AS {type_})"
    # adding 0 turns -0.0 into 0.0, as for a double that is read from a record
    return f"IF(abs({cast}) < double('Infinity'), {cast} + 0.0D, NULL)" if type_ == "DOUBLE" else cast


def _advise_cast(kind: str, type_: str) -> str:
    """What to do if SQL returns another kind than that of the column's type."""
    if kind in CASTS[kind_of(type_)]:
        return f"Write CAST(... AS {type_})."
    matching_types = [name for name, kind_name in KINDS.items() if kind_name == kind]
    matching_type = "DECIMAL(precision,scale)" if kind == DECIMAL else matching_types[-1]
    return f"No cast converts one to the other. Declare the column as {matching_type}."
