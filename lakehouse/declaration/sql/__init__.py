"""SQL in a declaration, checked by its text, before a Spark session exists.

``parsed`` parses a text as one expression, with its literals, and finds what the parser drops. ``rules`` checks
conditions and measures, and finds sums of doubles in them. Spark checks types later. ``queries`` checks the queries of
views, in DuckDB's SQL, and finds the tables and columns that they read. ``computed`` converts the SQL of a column to
SQL that no record can make fail. Its parts are ``operations``, with ``functions``. ``parser`` imports the parser of
SQL only if a declaration contains any.
"""

from lakehouse.declaration.sql.computed import NO_PLACES, computed_sql
from lakehouse.declaration.sql.functions import NotComputable
from lakehouse.declaration.sql.parsed import castable, named_columns, quoted
from lakehouse.declaration.sql.queries import column_origins, query_problems, tables_read
from lakehouse.declaration.sql.rules import EXACT, condition_problems, find_addends, is_inexact, measure_problems

__all__ = [
    "EXACT",
    "NO_PLACES",
    "NotComputable",
    "castable",
    "column_origins",
    "computed_sql",
    "condition_problems",
    "find_addends",
    "is_inexact",
    "measure_problems",
    "named_columns",
    "query_problems",
    "quoted",
    "tables_read",
]
