"""What columns add to the fingerprint of a declaration.

An option that is not set is left out: a new option of the vocabulary must not change existing fingerprints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace

from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.nested_types import as_spark_says


def columns_by_type(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns, with each nested type as Spark writes it."""
    return tuple(replace(c, type=as_spark_says(c.type)) if c.is_nested else c for c in columns)


def column_options(columns: Sequence[Column]) -> Iterator[object]:
    """Yield the options of columns that their representation does not contain."""
    yield from ((c.name, c.epoch, c.default) for c in columns if c.epoch is not None or c.default is not None)
    yield from ((c.name, c.sql) for c in columns if c.sql is not None)
    yield from ((c.name, c.field.former) for c in columns if c.formerly is not None)
    yield from ((c.name, "null", tuple(c.null_values)) for c in columns if c.null_values)
    yield from ((c.name, "null_erases") for c in columns if c.null_erases)
    yield from ((c.name, "invalid", c.invalid) for c in columns if c.invalid is not None)
    yield from ((c.name, "rounding", c.rounding) for c in columns if c.rounding is not None)
    yield from ((c.name, "zone", *astuple(c.field.zone)) for c in columns if c.field.zone)
    yield from ((c.name, "written", c.written) for c in columns if c.written is not None)
