"""Arrays whose elements are rows."""

from datetime import timedelta

from lakehouse.declaration import (
    ConnectJson,
    Csv,
    Deletes,
    Element,
    ElementIndex,
    FieldIs,
    HeaderIs,
    Json,
    ParentField,
    Protobuf,
    Tombstone,
    UnmappedFields,
)
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.unit.declaration.advice.example import Example, accept, of_table
from lakehouse_tests.unit.declaration.ratings import ID, column, declare, with_columns

NAME_ARRAY = 'Name the field with the array, such as rows_from="items", or its path. If the record is the array: ()'
REMOVE = "Remove one of the two."
ROWS = with_columns(rows_from="items")
BY_RECORD = FieldIs(ParentField("type"), ["DELETE"])
ROW_PER_ELEMENT = "For a row per element, write rows_from with the path to 'a', and paths within an element."
ELEMENT_IN_VIEW = "Declare the array 'a' as a column, such as ARRAY<STRING>, and read its element in a view."
STRINGS = column("a", "ARRAY<STRING>")


def message_of(place: str, step: str) -> str:
    """The message about a path that leads into an array."""
    return f"{place}: its path leads into an array by {step!r}, which is not a field"


EXAMPLES = [
    Example(
        message_of("column n", "a[0]"),
        ELEMENT_IN_VIEW,
        with_columns(column(source=("a[0]", "m"))),
        accept(with_columns(STRINGS), {"a": ["x"]}, a=["x"]),
    ),
    Example(
        message_of("column n", "a[]"),
        ROW_PER_ELEMENT,
        with_columns(column(source=("a[]", "m"))),
        with_columns(column(source="m"), rows_from="a"),
    ),
    Example(
        "column n: ElementIndex requires rows_from, without which a record is one row",
        "Declare rows_from=, or name a field or its path as source.",
        with_columns(column(source=ElementIndex())),
        with_columns(column(source=ElementIndex()), rows_from="items"),
        with_columns(column()),
    ),
    Example(
        "column n: the place of the element cannot be STRING",
        "Declare INT or BIGINT.",
        with_columns(column("n", "STRING", source=ElementIndex()), rows_from="items"),
        with_columns(column("n", "INT", source=ElementIndex()), rows_from="items"),
        with_columns(column("n", "BIGINT", source=ElementIndex()), rows_from="items"),
    ),
    Example(
        "column n: default is not allowed for the place of the element",
        "Remove default: its values are as they are.",
        with_columns(column(source=ElementIndex(), default=0), rows_from="items"),
        with_columns(column(source=ElementIndex()), rows_from="items"),
    ),
    Example(
        "deletes: when: ParentField is only for the deletes of a table with rows_from",
        "Name the field, or its path, as source of FieldIs.",
        with_columns(key=["id"], deletes=Deletes(when=BY_RECORD)),
        with_columns(key=["id"], deletes=Deletes(when=FieldIs("type", ["DELETE"]))),
        with_columns(key=["id"], rows_from="items", deletes=Deletes(when=BY_RECORD)),
    ),
    of_table(
        "where: ParentField is only for the deletes of a table with rows_from",
        "Name the field, or its path, as source of FieldIs.",
        rows_from="items",
        where=[BY_RECORD, FieldIs("type", ["DELETE"])],
    ),
    Example(
        "deletes: when: 'orders[].type' is not a field of the record itself",
        "Name a field of the record, or one of the element: FieldIs without ParentField.",
        with_columns(
            key=["id"],
            rows_from=("orders[]", "items"),
            deletes=Deletes(when=FieldIs(ParentField(("orders[]", "type")), ["DELETE"])),
        ),
        with_columns(key=["id"], rows_from=("orders[]", "items"), deletes=Deletes(when=BY_RECORD)),
    ),
    Example(
        "column n: ParentField requires rows_from, without which a record is one row",
        "Declare rows_from=, or name a field or its path as source.",
        with_columns(column(source=ParentField("n"))),
        with_columns(column(source=ParentField("n")), rows_from="items"),
        with_columns(column(source="n")),
    ),
    Example(
        "rows_from has an empty name, or one that is not valid UTF-8: ('',)",
        NAME_ARRAY,
        with_columns(rows_from=""),
        ROWS,
        with_columns(rows_from=()),
        with_columns(rows_from=("order", "items")),
    ),
    Example(
        "rows_from: values of format Csv contain no arrays",
        "Remove rows_from.",
        lambda: declare(columns=[ID], format=Csv(["id"]), rows_from="items"),
        lambda: declare(columns=[ID], format=Csv(["id"])),
    ),
    of_table(
        "rows_from=('[]', 'items'): a record of format Protobuf is not an array",
        "Name the field that contains the array.",
        with_columns(rows_from=("[]", "items")),
        format=Protobuf(),
        rows_from=[("[]", "items"), ("orders[]", "items")],
    ),
    of_table(
        "rows_from=(): a record of format Protobuf is not an array",
        "Name the field that contains the array.",
        format=Protobuf(),
        rows_from=[(), "items"],
    ),
    of_table(
        "rows_from=(): a record of format ConnectJson is not an array",
        "Name the field that contains the array.",
        with_columns(format=ConnectJson(), rows_from="items"),
        rows_from=(),
        format=[ConnectJson(), Json(in_text=True)],
    ),
    Example(
        "column n: rows_from and UnmappedFields() cannot be combined",
        'To keep an element with all of its fields, declare source=Element() and written="json".',
        with_columns(column(type_="STRING", source=UnmappedFields()), rows_from="items"),
        with_columns(column(type_="STRING", source=UnmappedFields())),
        with_columns(column(type_="STRING", source=Element(), written="json"), rows_from="items"),
    ),
    Example(
        "rows_from and truncates of deletes cannot be combined",
        f"An element is about one row. {REMOVE}",
        with_columns(rows_from="items", deletes=Deletes(truncates=FieldIs("op", ["t"]))),
        ROWS,
        with_columns(deletes=Deletes(truncates=FieldIs("op", ["t"]))),
    ),
    of_table(
        "rows_from and purge of deletes cannot be combined",
        f"The order of a purged delete has no place for an element. {REMOVE}",
        rows_from="items",
        deletes=[Deletes(when=FieldIs("op", ["d"]), purge=timedelta(days=9)), Deletes(when=FieldIs("op", ["d"]))],
    ),
    Example(
        "rows_from and base cannot be combined",
        f"Base files have no records around their rows. {REMOVE}",
        with_columns(rows_from="items", base=temperatures.base),
        ROWS,
        with_columns(base=temperatures.base),
    ),
    of_table(
        "deletes: a tombstone has no elements, but rows_from makes rows of elements",
        "Use FieldIs with a field of the elements, or remove one of the two.",
        rows_from="items",
        deletes=[Deletes(when=Tombstone()), Deletes(when=FieldIs("gone", [True]))],
    ),
    of_table(
        "where: the record is an array, which has no fields",
        "Use HeaderIs, or remove where. A condition on the elements is rows_from=Explode(..., where=...).",
        rows_from=(),
        where=[FieldIs("type", ["a"]), HeaderIs("type", ["a"])],
    ),
    Example(
        "column n: formerly is not allowed for an element as a whole",
        "Remove formerly.",
        with_columns(column(source=Element(), formerly="m"), rows_from="items"),
        with_columns(column(source=Element()), rows_from="items"),
    ),
    Example(
        "column n: ParentField is not allowed, because the record itself is the array",
        "No field is around the elements. Name a field of an element.",
        with_columns(column(source=ParentField("n")), rows_from=()),
        with_columns(column(source="n"), rows_from=()),
    ),
    Example(
        "column n: ParentField order contains the array of the rows, or is in it",
        "Every row would repeat the array. Name another field, or one of an element, as source.",
        with_columns(column(source=ParentField("order")), rows_from=("order", "items")),
        with_columns(column(source=ParentField(("order", "n"))), rows_from=("order", "items")),
        with_columns(column(source="order"), rows_from=("order", "items")),
    ),
    of_table(
        "rows_from: 'items[]' is last, but only a name on the way to the array of the rows ends with []",
        "Write 'items'.",
        rows_from=[("orders[]", "items[]"), ("orders[]", "items")],
    ),
    of_table(
        "rows_from: '[]' is only allowed at the beginning",
        "Write it at the end of the name of an array.",
        rows_from=[("orders", "[]", "items"), ("orders[]", "items")],
    ),
    Example(
        "column n: ParentField orders.n is in the array orders, of which each row has one element around it",
        "Write 'orders[]' in the path.",
        with_columns(column(source=ParentField(("orders", "n"))), rows_from=("orders[]", "items")),
        with_columns(column(source=ParentField(("orders[]", "n"))), rows_from=("orders[]", "items")),
    ),
    Example(
        "column n: ParentField orders[] contains the array of the rows, or is in it",
        "Every row would repeat the array. Name another field, or one of an element, as source.",
        with_columns(column(source=ParentField("orders[]")), rows_from=("orders[]", "items")),
        with_columns(column(source=ParentField(("orders[]", "n"))), rows_from=("orders[]", "items")),
        with_columns(column(source="n"), rows_from=("orders[]", "items")),
    ),
    Example(
        "column n: ParentField n: the record is an array, which has no fields",
        "Begin the path with '[]'.",
        with_columns(column(source=ParentField("n")), rows_from=("[]", "items")),
        with_columns(column(source=ParentField(("[]", "n"))), rows_from=("[]", "items")),
    ),
    Example(
        "column n: formerly m is in another object than its source",
        "Begin both paths with the same arrays on the way to the rows, or remove formerly.",
        with_columns(column(source=ParentField(("orders[]", "n")), formerly="m"), rows_from=("orders[]", "items")),
        with_columns(
            column(source=ParentField(("orders[]", "n")), formerly=("orders[]", "m")), rows_from=("orders[]", "items")
        ),
        with_columns(column(source=ParentField(("orders[]", "n"))), rows_from=("orders[]", "items")),
    ),
]
