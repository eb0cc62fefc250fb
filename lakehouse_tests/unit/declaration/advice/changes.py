"""Change streams: what the log of the database decides, a declaration does not decide again."""

from dataclasses import replace
from typing import Any

from lakehouse.declaration import Avro, Column, Computed, Cut, Debezium, Deletes, FieldIs, Json, RecordKey, Time, Topic
from lakehouse_tests.unit.declaration.advice.example import Example, of_table
from lakehouse_tests.unit.declaration.ratings import TableFactory, column, computed, declare, log_table, with_columns

REASONS: dict[str, tuple[str, dict[str, Any]]] = {
    "deletes": (
        "The records themselves say which rows are deleted, and when the table is truncated.",
        {"deletes": Deletes(when=FieldIs("op", ["d"]))},
    ),
    "where": ("A row that no longer meets it would stay in the table.", {"where": FieldIs("kind", ["a"])}),
    "rows_from": ("A change is about one row of the database.", {"rows_from": "items"}),
    'order="offset"': (
        "The position in the log of the database decides which change is newer.",
        {"source": Topic("ratings", order="offset")},
    ),
}
REPLACED_NULL = (
    "A default replaces a NULL of the database, so the table would differ from it. Remove default."
    " For readers, write coalesce(note, ...) in the sql of another column, or in a view."
)
REMOVED_VALUE = (
    "null_values remove a value of the database, so the table would differ from it. Remove null_values."
    " For readers, write nullif(note, ...) in the sql of another column, or in a view."
)
INVALID_VALUE = (
    "invalid removes a value of the database, so the table would differ from it. Remove invalid."
    " For readers, write try_cast(note, ...) in the sql of another column, or in a view."
)
KEY = column("id", "BIGINT", required=True)
KEY_OF_DOCUMENT = column("id", "STRING", required=True, source=RecordKey("json", "id"))


def with_rows(*columns: Column | Computed, **options: Any) -> TableFactory:
    """A change stream with these columns and a key."""
    return lambda: declare(columns=[KEY, *columns], **{"format": Debezium()} | options)


EXAMPLES = [
    of_table(
        "unavailable_value_placeholder of Debezium is 'hex:0'",
        "Write what unavailable.value.placeholder of the connector is: a text, or hex: and digits.",
        format=[
            Debezium(unavailable_value_placeholder="hex:0"),
            Debezium(unavailable_value_placeholder="hex:00ff"),
            Debezium(unavailable_value_placeholder="<gone>"),
        ],
    ),
    Example(
        "documents=True of Debezium cannot be combined with options of other databases",
        "Remove the other options. Rows that ExtractNewDocumentState flattened need Json() and deletes.",
        with_columns(columns=[KEY_OF_DOCUMENT], format=Debezium(documents=True, flattened=True)),
        with_columns(columns=[KEY_OF_DOCUMENT], format=Debezium(documents=True)),
    ),
    Example(
        "key column id is not in the record's key, which alone a delete has",
        "Declare source=RecordKey('json', 'id'): the key of each record has the id.",
        with_rows(format=Debezium(documents=True)),
        with_columns(columns=[KEY_OF_DOCUMENT], format=Debezium(documents=True)),
    ),
    Example(
        "column n: keep and documents=True cannot be combined",
        "A field that was removed from a document is missing in it, and is NULL. Remove keep.",
        with_columns(columns=[KEY_OF_DOCUMENT, column(keep=True, null_erases=True)], format=Debezium(documents=True)),
        with_columns(columns=[KEY_OF_DOCUMENT, column()], format=Debezium(documents=True)),
    ),
    Example(
        "column n: format Debezium and Cut cannot be combined",
        "The table has the values of the database. Name the field, and cut it in a view, for readers.",
        with_rows(column("n", source=Cut("t", (0, 2)))),
        with_rows(column("n", source="t")),
        with_columns(columns=[KEY_OF_DOCUMENT, column(source=Cut("t", (0, 2)))], format=Debezium(documents=True)),
    ),
    Example(
        "format Debezium requires a key",
        "Name the columns of the primary key in the database.",
        log_table(format=Debezium()),
        with_columns(format=Debezium()),
    ),
    *(
        Example(
            f"format Debezium and {name} cannot be combined",
            f"{reason} Remove it.",
            with_columns(format=Debezium(), **options),
            with_columns(format=Debezium()),
        )
        for name, (reason, options) in REASONS.items()
    ),
    of_table(
        "format Debezium and duplicate_names cannot be combined",
        "A connector writes each name once: other records are damaged. Remove it.",
        format=[Debezium(Json(duplicate_names="last")), Debezium()],
    ),
    of_table(
        "format Debezium and in_base64 cannot be combined",
        "The table has the values of the database. Read a text in base64 in a view. Remove it.",
        format=[Debezium(Json(in_base64="data")), Debezium()],
    ),
    of_table(
        'format Debezium and not_finite="null" cannot be combined',
        "A NULL in place of NaN would leave the table different from its database. Remove it.",
        format=[Debezium(Json(not_finite="null")), Debezium(Json())],
    ),
    Example(
        "column note: keep requires null_erases in a table of format Debezium",
        "A null in the database must replace the stored value. Add null_erases=True.",
        with_rows(column("note", "STRING", keep=True)),
        with_rows(column("note", "STRING", keep=True, null_erases=True)),
    ),
    Example(
        "column note: format Debezium and invalid cannot be combined",
        INVALID_VALUE,
        with_rows(column("note", "STRING", invalid="null")),
        with_rows(column("note", "STRING")),
    ),
    Example(
        "column note: format Debezium and default cannot be combined",
        REPLACED_NULL,
        with_rows(column("note", "STRING", default="-")),
        with_rows(column("note", "STRING"), computed("coalesce(note, '-')", "shown_note", "STRING")),
    ),
    Example(
        "column at: format Debezium and zone cannot be combined",
        "The table has the times of the database. Remove zone. For readers, convert them in a view.",
        with_rows(column("at", "TIMESTAMP", written=Time("iso8601", zone="Europe/Berlin"))),
        with_rows(column("at", "TIMESTAMP", written=Time("iso8601"))),
    ),
    Example(
        "column note: format Debezium and null_values cannot be combined",
        REMOVED_VALUE,
        with_rows(column("note", "STRING", null_values=["-"])),
        with_rows(column("note", "STRING"), computed("nullif(note, '-')", "shown_note", "STRING")),
    ),
    Example(
        "column note: format Debezium and null_values cannot be combined",
        REMOVED_VALUE.replace("in the sql of another column, or in a view", "in a view"),
        with_rows(column("note", "STRING", keep=True, null_erases=True, null_values=["-"])),
        with_rows(column("note", "STRING", keep=True, null_erases=True)),
    ),
    Example(
        "column n: RecordKey('avro', 'id') and format Debezium cannot be combined",
        "Remove its source: the row contains its key.",
        with_rows(column("n", source=RecordKey("avro", "id")), format=Debezium(Avro())),
        with_rows(column("n"), format=Debezium(Avro())),
    ),
    Example(
        "key column id is not a field of the row in a table of format Debezium",
        "Remove its source: the row contains its key.",
        lambda: declare(columns=[replace(KEY, source=RecordKey())], format=Debezium()),
        with_rows(),
    ),
]
