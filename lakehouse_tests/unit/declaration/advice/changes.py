"""Change streams: what the log of the database decides, a declaration does not decide again."""

from dataclasses import replace

from lakehouse.declaration import Debezium, FieldIs, RecordKey
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import column, declare, log_table, with_columns

ORDER = "The position in the log of the database decides which change is newer. Remove it."
KEY = column("id", "BIGINT", required=True)
EXAMPLES = [
    Example(
        "format Debezium requires a key",
        "Name the columns of the primary key in the database.",
        log_table(format=Debezium()),
        with_columns(format=Debezium()),
    ),
    Example(
        "format Debezium and apply_as_deletes cannot be combined",
        "The records themselves say which rows are deleted. Remove it.",
        with_columns(format=Debezium(), apply_as_deletes=FieldIs("op", ["d"])),
        with_columns(format=Debezium()),
    ),
    Example(
        "format Debezium and apply_as_truncates cannot be combined",
        "The records themselves say when rows are deleted. Remove it.",
        with_columns(format=Debezium(), apply_as_truncates=FieldIs("op", ["t"])),
        with_columns(format=Debezium()),
    ),
    Example(
        'format Debezium and order="offset" cannot be combined',
        ORDER,
        with_columns(format=Debezium(), order="offset"),
        with_columns(format=Debezium()),
    ),
    Example(
        "column note: keep requires null_erases in a table of format Debezium",
        "A null in the database must replace the stored value. Add null_erases=True.",
        lambda: declare(columns=[KEY, column("note", "STRING", keep=True)], format=Debezium()),
        lambda: declare(columns=[KEY, column("note", "STRING", keep=True, null_erases=True)], format=Debezium()),
    ),
    Example(
        "column note: keep and null_values cannot be combined in a table of format Debezium",
        "A null value would keep the stored one, unlike in the database. Remove null_values.",
        lambda: declare(
            columns=[KEY, column("note", "STRING", keep=True, null_erases=True, null_values=["-"])], format=Debezium()
        ),
        lambda: declare(columns=[KEY, column("note", "STRING", keep=True, null_erases=True)], format=Debezium()),
    ),
    Example(
        "key column id is not a field of the row in a table of format Debezium",
        "Remove its source: the row contains its key.",
        lambda: declare(columns=[replace(KEY, source=RecordKey())], format=Debezium()),
        lambda: declare(columns=[KEY], format=Debezium()),
    ),
]
