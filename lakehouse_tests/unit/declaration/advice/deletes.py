"""Deletes: what must be in a record that deletes a row."""

from datetime import timedelta

from lakehouse.declaration import FieldIs, RecordHeader, RecordKey, Tombstone
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.unit.declaration.advice.example import Accepted, Example
from lakehouse_tests.unit.declaration.ratings import column, declare, log_table, oldest, with_columns

KEY = column("id", "BIGINT", required=True, source=RecordKey())
VERSION = column("revision", "INT", source=RecordHeader("revision"))
DELETED = FieldIs("operation", ["DELETE", 1, True])
TRUNCATED = FieldIs("operation", ["TRUNCATE"])
EXAMPLES = [
    Example(
        "may_forget requires a kept column",
        "Declare keep=True for a column, or remove may_forget.",
        with_columns(column("rating", "INT"), may_forget=True),
        with_columns(column("rating", "INT", keep=True), may_forget=True),
        with_columns(column("rating", "INT")),
    ),
    Example(
        "apply_as_deletes: FieldIs needs the name of a field, and at least one value",
        'Write, for example: FieldIs("operation", ["DELETE"])',
        with_columns(apply_as_deletes=FieldIs("operation", [])),
        with_columns(apply_as_deletes=DELETED),
    ),
    Example(
        "apply_as_deletes: column id is a field of the value, but a tombstone has no value",
        "Declare source=RecordKey() for it, or use FieldIs if the deletes have a value.",
        with_columns(apply_as_deletes=Tombstone()),
        Accepted(lambda: declare(columns=[KEY], apply_as_deletes=Tombstone()), {}, {}, other_parts={"key": b"1"}),
        with_columns(apply_as_deletes=DELETED),
    ),
    Example(
        "apply_as_deletes: column revision is a field of the value, but a tombstone has no value",
        'Declare source=RecordHeader("...") for it, or use FieldIs if the deletes have a value.',
        lambda: declare(columns=[KEY, column("revision")], version=oldest("revision"), apply_as_deletes=Tombstone()),
        Accepted(
            lambda: declare(columns=[KEY, VERSION], version=oldest("revision"), apply_as_deletes=Tombstone()),
            {},
            {},
            other_parts={"key": b"1"},
        ),
    ),
    Example(
        "apply_as_truncates: FieldIs needs the name of a field, and at least one value",
        'Write, for example: FieldIs("operation", ["DELETE"])',
        with_columns(apply_as_truncates=FieldIs("", ["TRUNCATE"])),
        with_columns(apply_as_truncates=TRUNCATED),
    ),
    Example(
        "apply_as_truncates requires a key, but this is a log table, in which each record is a row",
        "Remove it, or name the columns that identify a row as the key.",
        log_table(apply_as_truncates=TRUNCATED),
        log_table(),
        with_columns(apply_as_truncates=TRUNCATED),
    ),
    Example(
        "the value 'X' means both a delete and a truncate",
        "A truncate deletes all rows. Remove the value from apply_as_deletes or apply_as_truncates.",
        with_columns(apply_as_deletes=FieldIs("op", ["D", "X"]), apply_as_truncates=FieldIs("op", ["X"])),
        with_columns(apply_as_deletes=FieldIs("op", ["D", "X"]), apply_as_truncates=FieldIs("op", ["T"])),
        with_columns(apply_as_deletes=FieldIs("op", ["D"]), apply_as_truncates=FieldIs("op", ["X"])),
    ),
    Example(
        'apply_as_truncates and order="offset" cannot be combined without a version',
        "Offsets of several partitions cannot be compared. Declare version=, or remove one of them.",
        with_columns(apply_as_truncates=TRUNCATED, order="offset"),
        with_columns(apply_as_truncates=TRUNCATED),
        with_columns(order="offset"),
    ),
    Example(
        'purge_deletes and order="offset" cannot be combined without a version',
        "Offsets of several partitions cannot be compared. Declare version=, or remove one of them.",
        with_columns(purge_deletes=timedelta(days=30), apply_as_deletes=DELETED, order="offset"),
        with_columns(purge_deletes=timedelta(days=30), apply_as_deletes=DELETED),
        with_columns(apply_as_deletes=DELETED, order="offset"),
    ),
    Example(
        "purge_deletes requires a key, but this is a log table, in which each record is a row",
        "Remove it, or name the columns that identify a row as the key.",
        log_table(purge_deletes=timedelta(days=30)),
        log_table(),
        with_columns(purge_deletes=timedelta(days=30), apply_as_deletes=DELETED),
    ),
    Example(
        "purge_deletes is 1:00:00, but the minimum is one day",
        "Write purge_deletes=timedelta(days=1) or more.",
        with_columns(purge_deletes=timedelta(hours=1), apply_as_deletes=DELETED),
        with_columns(purge_deletes=timedelta(days=1), apply_as_deletes=DELETED),
    ),
    Example(
        "purge_deletes requires deletes",
        "Declare apply_as_deletes=, or remove purge_deletes=.",
        with_columns(purge_deletes=timedelta(days=30)),
        with_columns(purge_deletes=timedelta(days=30), apply_as_deletes=DELETED),
        with_columns(),
    ),
    Example(
        "purge_deletes and base cannot be combined",
        "Base rows are older than any delete, and would come back. Remove one of them.",
        with_columns(purge_deletes=timedelta(days=30), apply_as_deletes=DELETED, base=temperatures.base),
        with_columns(purge_deletes=timedelta(days=30), apply_as_deletes=DELETED),
        with_columns(apply_as_deletes=DELETED, base=temperatures.base),
    ),
    Example(
        "apply_as_deletes requires a key, but this is a log table, in which each record is a row",
        "Remove it, or name the columns that identify a row as the key.",
        log_table(apply_as_deletes=DELETED),
        log_table(),
        with_columns(apply_as_deletes=DELETED),
    ),
]
