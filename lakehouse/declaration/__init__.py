"""The vocabulary in which a table is declared. A declaration is checked when it is made.

``vocabulary`` holds the parts, ``table`` the whole, ``column_rules`` and ``table_rules`` what is refused,
``names`` the names that are taken. No input or output; imports ``lakehouse.records`` and ``lakehouse.errors`` only.
"""

from lakehouse.declaration.table import StreamTable, declared_together
from lakehouse.declaration.vocabulary import (
    Column,
    Json,
    Late,
    Measure,
    Month,
    Reference,
    Rollup,
    Rows,
    Samples,
)

__all__ = [
    "Column",
    "Json",
    "Late",
    "Measure",
    "Month",
    "Reference",
    "Rollup",
    "Rows",
    "Samples",
    "StreamTable",
    "declared_together",
]
