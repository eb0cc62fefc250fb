"""SQL of a column that follows from others → SQL that gives a value, or NULL, whatever a record holds.

Spark ends a batch at the first row that cannot be computed. So what may stand in such a column is listed, with what
each part takes and gives: arithmetic and casts become those that give NULL, nothing is converted by itself, and what is
not listed is refused when it is declared.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.functions import CASTS, DECIMAL, KINDS, NULL, NUMBERS, WHOLE, NotComputable, kind_of
from lakehouse.declaration.sql.literals import require_bounded
from lakehouse.declaration.sql.parsed import EXPRESSION, left_out, parsed
from lakehouse.declaration.sql.reader import Reader

if TYPE_CHECKING:
    from sqlglot import exp


def computed_sql(sql: str, type_: str, columns: Mapping[str, str]) -> str:
    """SQL of a computed column of a type, over columns of known types → Spark's SQL, which no record can make fail.

    It gives NULL where nothing can be computed. Raises ``NotComputable`` where it is none.
    """
    try:
        root = parsed(sql)
        if root is not None:
            lost = left_out(sql, root)
            if lost:
                raise NotComputable(
                    f"this part of it is not supported: {lost}", "Leave it out, or express it with another function."
                )
            return _computed(root, type_, columns)
    except RecursionError:
        raise NotComputable("it is nested too deeply", "Write it with fewer levels.") from None
    raise NotComputable("it is no SQL expression", EXPRESSION)


def _computed(root: "exp.Expr", type_: str, columns: Mapping[str, str]) -> str:
    """Spark's SQL for a column of a type, over columns of known types; it gives NULL where nothing can be computed.

    Raises ``NotComputable``.
    """
    part = Reader({name.lower(): each for name, each in columns.items()}).read(root)
    require_bounded(root)
    wanted = kind_of(type_)
    fits = part.kind in (wanted, NULL) or (
        part.kind in NUMBERS and wanted in NUMBERS and (wanted != WHOLE or part.kind == WHOLE)
    )
    if not fits:
        raise NotComputable(f"it gives {part.kind}, and the column is {type_}", _made_of(part.kind, type_))
    cast = f"try_cast({part.sql} AS {type_})"
    # adding 0 turns -0.0 into 0.0, as in a double that a record tells
    return f"IF(abs({cast}) < double('Infinity'), {cast} + 0.0D, NULL)" if type_ == "DOUBLE" else cast


def _made_of(kind: str, type_: str) -> str:
    """What to do where SQL gives another kind than that of the column's type."""
    if kind in CASTS[kind_of(type_)]:
        return f"Write CAST(... AS {type_})."
    own = "DECIMAL(precision,scale)" if kind == DECIMAL else [name for name, each in KINDS.items() if each == kind][-1]
    return f"No cast makes one of the other: declare the column {own}."
