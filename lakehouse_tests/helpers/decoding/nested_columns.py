"""A column of a nested type."""

from typing import Any

from lakehouse.declaration import Column

LINES = "ARRAY<STRUCT<sku: STRING, price: DECIMAL(10,2), tags: MAP<STRING, INT>>>"


def column(type_: str, **options: Any) -> Column:
    return Column("n", type_, "Nested.", **options)
