"""Deletes: what must be in a record that deletes a row."""

from datetime import timedelta

from lakehouse.declaration import Deletes, FieldIs, RecordHeader, RecordKey, Tombstone, Topic
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.unit.declaration.advice.example import Accepted, Example, of_table
from lakehouse_tests.unit.declaration.ratings import column, declare, log_table, oldest, with_columns

KEY = column("id", "BIGINT", required=True, source=RecordKey())
VERSION = column("revision", "INT", source=RecordHeader("revision"))
DELETED = FieldIs("operation", ["DELETE", 1, True])
TRUNCATED = FieldIs("operation", ["TRUNCATE"])
EXAMPLES = [
    Example(
        "may_forget requires a kept column",
        "Declare keep=True for a column, or remove may_forget.",
        with_columns(column("rating", "INT"), source=Topic("ratings", may_forget=True)),
        with_columns(column("rating", "INT", keep=True), source=Topic("ratings", may_forget=True)),
        with_columns(column("rating", "INT")),
    ),
    of_table(
        "deletes: when: FieldIs needs the name of a field, and at least one value",
        'Write, for example: FieldIs("operation", ["DELETE"])',
        deletes=[Deletes(when=FieldIs("operation", [])), Deletes(when=DELETED)],
    ),
    Example(
        "deletes: column id is a field of the value, but a tombstone has no value",
        "Declare source=RecordKey() for it, or use FieldIs if the deletes have a value.",
        with_columns(deletes=Deletes(when=Tombstone())),
        Accepted(lambda: declare(columns=[KEY], deletes=Deletes(when=Tombstone())), {}, {}, other_parts={"key": b"1"}),
        with_columns(deletes=Deletes(when=DELETED)),
    ),
    Example(
        "deletes: column revision is a field of the value, but a tombstone has no value",
        'Declare source=RecordHeader("...") for it, or use FieldIs if the deletes have a value.',
        lambda: declare(
            columns=[KEY, column("revision")], version=oldest("revision"), deletes=Deletes(when=Tombstone())
        ),
        Accepted(
            lambda: declare(columns=[KEY, VERSION], version=oldest("revision"), deletes=Deletes(when=Tombstone())),
            {},
            {},
            other_parts={"key": b"1"},
        ),
    ),
    of_table(
        "deletes: truncates: FieldIs needs the name of a field, and at least one value",
        'Write, for example: FieldIs("operation", ["DELETE"])',
        deletes=[Deletes(truncates=FieldIs("", ["TRUNCATE"])), Deletes(truncates=TRUNCATED)],
    ),
    of_table(
        "the value 'X' means both a delete and a truncate",
        "A truncate deletes all rows. Remove the value from when or from truncates.",
        deletes=[
            Deletes(when=FieldIs("op", ["D", "X"]), truncates=FieldIs("op", ["X"])),
            Deletes(when=FieldIs("op", ["D", "X"]), truncates=FieldIs("op", ["T"])),
            Deletes(when=FieldIs("op", ["D"]), truncates=FieldIs("op", ["X"])),
        ],
    ),
    Example(
        'truncates of deletes and order="offset" cannot be combined without a version',
        "Offsets of several partitions cannot be compared. Declare version=, or remove one of them.",
        with_columns(deletes=Deletes(truncates=TRUNCATED), source=Topic("ratings", order="offset")),
        with_columns(deletes=Deletes(truncates=TRUNCATED)),
        with_columns(source=Topic("ratings", order="offset")),
    ),
    of_table(
        'purge of deletes and order="offset" cannot be combined without a version',
        "Offsets of several partitions cannot be compared. Declare version=, or remove one of them.",
        with_columns(deletes=Deletes(when=DELETED, purge=timedelta(days=30))),
        source=Topic("ratings", order="offset"),
        deletes=[Deletes(when=DELETED, purge=timedelta(days=30)), Deletes(when=DELETED)],
    ),
    of_table(
        "purge is 1:00:00, but the minimum is one day",
        "Write purge=timedelta(days=1) or more.",
        deletes=[Deletes(when=DELETED, purge=timedelta(hours=1)), Deletes(when=DELETED, purge=timedelta(days=1))],
    ),
    of_table(
        "purge requires deletes",
        "Declare Deletes(when=...), or remove purge.",
        deletes=[Deletes(purge=timedelta(days=30)), Deletes(when=DELETED, purge=timedelta(days=30))],
    ),
    of_table(
        "purge of deletes and base cannot be combined",
        "Base rows are older than any delete, and would come back. Remove one of them.",
        with_columns(deletes=Deletes(when=DELETED, purge=timedelta(days=30))),
        base=temperatures.base,
        deletes=[Deletes(when=DELETED, purge=timedelta(days=30)), Deletes(when=DELETED)],
    ),
    Example(
        "deletes requires a key, but this is a log table, in which each record is a row",
        "Remove it, or name the columns that identify a row as the key.",
        log_table(deletes=Deletes(when=DELETED)),
        with_columns(deletes=Deletes(when=DELETED)),
    ),
]
