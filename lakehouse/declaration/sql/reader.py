"""The parts of a computed column's SQL, one by one: the SQL that each becomes, and the kind of its result."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakehouse.declaration.sql import conditions, operations
from lakehouse.declaration.sql.functions import (
    ALLOWED_ARGUMENTS,
    ARITHMETIC,
    BINARY_ARGUMENTS,
    BOOLEAN,
    COMPARISONS,
    FUNCTIONS,
    NULL,
    VARIADIC,
    NotComputable,
    Part,
    column_part,
)
from lakehouse.declaration.sql.literals import literal, require_short, shown_sql
from lakehouse.declaration.sql.part_reader import PartReader

if TYPE_CHECKING:
    from sqlglot import exp


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
    **dict.fromkeys(COMPARISONS, conditions.read_comparison),
    **dict.fromkeys(ARITHMETIC, operations.read_arithmetic),
    **dict.fromkeys(VARIADIC, operations.read_variadic),
    **dict.fromkeys(("And", "Or"), conditions.read_connective),
    **dict.fromkeys(("Cast", "TryCast"), operations.read_cast),
    **dict.fromkeys(("Like", "ILike"), conditions.read_like),
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
    "Is": conditions.read_is,
    "In": conditions.read_in,
    "Between": conditions.read_between,
    "Case": conditions.read_case,
    "If": conditions.read_if,
    "Nullif": conditions.read_null_if,
    "Trim": operations.read_trim,
    "TsOrDsToDate": operations.read_day,
}
