"""SQL of a computed column → SQL that returns a value or NULL for every possible record.

Spark fails a batch at the first row that cannot be computed. So the supported functions and operators are listed, with
the kinds of their arguments and results. Arithmetic and casts become variants that return NULL, and there are no
implicit conversions. Everything else is refused when the table is declared.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.functions import CASTS, DECIMAL, INTEGER, KINDS, NULL, NUMBERS, NotComputable, kind_of
from lakehouse.declaration.sql.literals import require_bounded
from lakehouse.declaration.sql.parsed import EXPRESSION, dropped_parts, parse_expression
from lakehouse.declaration.sql.reader import Reader

if TYPE_CHECKING:
    from sqlglot import exp


NO_PLACES: Mapping[str, str] = {}


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
