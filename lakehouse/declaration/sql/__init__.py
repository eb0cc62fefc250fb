"""SQL in a declaration, looked at by its text: before any Spark is there to ask.

``parsed`` makes one expression of it, and says what the parser loses. ``rules`` is what conditions and measures may not
be, ``sums`` which of them add up doubles; whether their types fit is for Spark to say. ``computed`` turns the SQL of a
column into one that no record can make fail: ``reader`` knows its parts, by ``functions`` and ``literals``. The parser
is imported where there is SQL.
"""

from lakehouse.declaration.sql.computed import computed_sql
from lakehouse.declaration.sql.functions import NotComputable
from lakehouse.declaration.sql.literals import castable
from lakehouse.declaration.sql.parsed import named_columns, quoted
from lakehouse.declaration.sql.rules import condition_problems, measure_problems
from lakehouse.declaration.sql.sums import EXACT, added, is_inexact

__all__ = [
    "EXACT",
    "NotComputable",
    "added",
    "castable",
    "computed_sql",
    "condition_problems",
    "is_inexact",
    "measure_problems",
    "named_columns",
    "quoted",
]
