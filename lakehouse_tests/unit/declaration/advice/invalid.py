"""Values that cannot be read: ``invalid="null"``, and the column that keeps their text."""

from datetime import timedelta
from functools import partial

from lakehouse.declaration import Element, Late, Protobuf, RecordHeader, Time, ValueOrObject
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.unit.declaration.advice.example import Example, accept
from lakehouse_tests.unit.declaration.ratings import column, oldest, with_columns

TEXT = column("text", "STRING", source="n")
invalid = partial(column, invalid="null")
MOVED = invalid(source=("a", "n"), formerly=("b", "n"))
REMOVE = "Remove one of the two."
EXAMPLES = [
    Example(
        "column n: invalid requires another column with the text of the field",
        'Add it, so that nothing is lost: Column("n_text", "STRING", source="n", doc="..."), with written="json" if the'
        " field is not always a text.",
        with_columns(invalid(written="text")),
        accept(with_columns(invalid(written="text"), TEXT), {"n": "x"}, n=None, text="x"),
        accept(with_columns(invalid(), column("text", "STRING", source="n", written="json")), {"n": 1.5}, text="1.5"),
    ),
    Example(
        "column n: invalid requires another column with the text of the field",
        'Add it, so that nothing is lost: Column("n_text", "STRING", source="log", doc="..."), with written="json" if'
        " the field is not always a text.",
        with_columns(invalid(source=("log", "n")), column("text", "STRING", source=("log", "m"))),
        accept(with_columns(invalid(source=("log", "n")), column("log", "STRING")), {"log": "x"}, n=None, log="x"),
    ),
    Example(
        "column n: invalid requires another column with the text of the field",
        'Add it, so that nothing is lost: Column("n_text", "STRING", source="n", doc="..."), with written="json" if the'
        " field is not always a text.",
        with_columns(invalid(), column("text", "STRING", source="n", null_values=["-"])),
        with_columns(invalid(), TEXT),
        with_columns(invalid(), column("all", "STRING", source=Element(), written="json"), rows_from="items"),
    ),
    Example(
        "column n: invalid requires another column with the text of the field",
        'Add it, so that nothing is lost: Column("n_text", "STRING", source="n", formerly="m", doc="..."), with'
        ' written="json" if the field is not always a text.',
        with_columns(invalid(formerly="m"), TEXT),
        with_columns(invalid(formerly="m"), column("text", "STRING", source="n", formerly="m")),
    ),
    Example(
        "column n: invalid requires another column with the text of the field",
        'Add it, so that nothing is lost: Column("n_text", "STRING", source=("a", "n"), formerly=("b", "n"),'
        ' doc="..."), with written="json" if the field is not always a text.',
        with_columns(MOVED, column("text", "STRING", source="a", formerly="b", written="json")),
        with_columns(MOVED, column("text", "STRING", source=("a", "n"), formerly="b", written="json")),
    ),
    Example(
        "column n: invalid requires another column with the text of the field",
        'Add it, so that nothing is lost: Column("n_text", "STRING", source="a", doc="..."), with written="json" if the'
        " field is not always a text.",
        with_columns(invalid(source=ValueOrObject("a", "n")), column("text", "STRING", source=("a", "n"))),
        with_columns(invalid(source=ValueOrObject("a", "n")), column("text", "STRING", source="a", written="json")),
        with_columns(invalid(source=ValueOrObject("a", "n")), column("text", "STRING", source=ValueOrObject("a", "n"))),
    ),
    Example(
        "column n: required and invalid cannot be combined",
        REMOVE,
        with_columns(invalid(required=True), TEXT),
        with_columns(invalid(), TEXT),
    ),
    Example(
        "column n: default and invalid cannot be combined",
        REMOVE,
        with_columns(invalid(default=0), TEXT),
        with_columns(invalid(), TEXT),
        with_columns(column(default=0), TEXT),
    ),
    Example(
        "column n: keep and invalid cannot be combined",
        REMOVE,
        with_columns(invalid(keep=True), TEXT),
        with_columns(invalid(), TEXT),
        with_columns(column(keep=True), TEXT),
    ),
    Example(
        "column n: invalid is not allowed for a text of format Protobuf",
        "Remove invalid: no other column could have the value, such as the number of an enum without a name. Add"
        " the name to the schema, then redrive.",
        with_columns(invalid("n", "STRING"), format=Protobuf()),
        with_columns(column("n", "STRING"), format=Protobuf()),
    ),
    Example(
        "column n: version needs its value, so invalid is not allowed",
        "Remove invalid, or name another column in version.",
        with_columns(invalid(), TEXT, version=oldest("n")),
        with_columns(column(), TEXT, version=oldest("n")),
        with_columns(invalid(), TEXT, version=oldest("stars")),
    ),
    Example(
        "column n: late needs its value, so invalid is not allowed",
        "Remove invalid, or name another column in late.",
        with_columns(invalid("n", "TIMESTAMP", written=Time("iso8601")), TEXT, late=Late("n", timedelta(1))),
        with_columns(invalid("n", "TIMESTAMP", written=Time("iso8601")), TEXT, late=Late("rated_at", timedelta(1))),
    ),
    Example(
        "column n: base and invalid cannot be combined",
        REMOVE,
        with_columns(invalid(), TEXT, base=temperatures.base),
        with_columns(invalid(), TEXT),
    ),
    Example(
        "column n: invalid is only allowed for a field of a record's value",
        "Remove invalid, or read the column from a field.",
        with_columns(invalid(source=RecordHeader("n")), TEXT),
        with_columns(column(source=RecordHeader("n")), TEXT),
        with_columns(invalid(), TEXT),
    ),
]
