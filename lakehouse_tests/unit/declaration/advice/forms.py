"""How records write values: forms that do not fit the column, separators, and the values of booleans."""

from datetime import UTC, date, datetime
from decimal import Decimal

from lakehouse.declaration import Avro, ConnectJson, Debezium, RecordHeader, RecordKey, TextBoolean, TextNumber, Time
from lakehouse_tests.unit.declaration.advice.example import Accepted, Example, accept
from lakehouse_tests.unit.declaration.ratings import column, computed, declare, with_column, with_columns

DAY = date(2026, 1, 31)
KEY = column("id", "BIGINT", required=True)
GERMAN = TextNumber(decimal=",", thousands=".")
FORMS = (
    "text, text_or_number, number, json, otlp, connect, base64, base64url or hex, a TextNumber, a TextBoolean,"
    " a KeyValues or a Time"
)
OF_PARTS = (
    "A key and a header are texts. Remove written, or declare a TextNumber or a TextBoolean that lists only texts, or"
    " for bytes base64, base64url or hex."
)
OF_TEXT = (
    "It is for numbers, booleans, and times with an epoch. A STRING and a time with a pattern are texts already: remove"
    " written."
)
OF_NUMBER = (
    "It is for STRING, and for a time with a pattern of digits. Other columns read numbers already: remove written."
)
OF_CONNECTOR = (
    "The settings of the connector decide how it writes values. Remove written. If it writes decimals as text, declare"
    " decimal_handling_mode='string'. For other texts, write a cast in the sql of another column, or in a view."
)
WRONG_DECIMAL = "Write the one character before the fraction, for example decimal=','."
WRONG_THOUSANDS = "Write the one character between groups of three digits. It must differ from decimal."
EXAMPLES = [
    Example(
        "column rest: written='json' is not allowed for format Avro",
        "Declare a column for each field that you need, with its path as source.",
        with_columns(column("rest", "STRING", written="json"), format=Avro()),
        with_columns(column("rest", "STRING", source=("rest", "name"))),
    ),
    Example(
        f"column n: written must be {FORMS}, not 'txt'",
        f"Declare {FORMS}.",
        with_column(written="txt"),
        accept(with_column(written="text"), {"n": "5"}, n=5),
        accept(with_column(written=TextNumber(suffix=" %")), {"n": "5 %"}, n=5),
    ),
    Example(
        "column n: written is not allowed for ARRAY<INT>",
        "A field within an object can be a column of its own, with its path as source and with written. For values"
        " within arrays and maps, declare STRING if they are texts.",
        with_column(type_="ARRAY<INT>", written="text"),
        accept(with_column(written="text", source=("a", "m")), {"a": {"m": "3"}}, n=3),
        accept(with_column(type_="ARRAY<STRING>"), {"n": ["3"]}, n=["3"]),
    ),
    Example(
        "column n: written and RecordKey('big_endian') cannot be combined",
        "The key is either a text or the bytes of a number. Remove one of the two.",
        with_column(source=RecordKey("big_endian"), written=TextNumber()),
        Accepted(with_column(source=RecordKey("big_endian")), {}, {"n": 3}, {"key": bytes([0, 0, 0, 3])}),
        Accepted(with_column(source=RecordKey(), written=TextNumber()), {}, {"n": 3}, {"key": b"003"}),
    ),
    Example(
        "column n: written='text' is not allowed for the header m",
        OF_PARTS,
        with_column(source=RecordHeader("m"), written="text"),
        Accepted(with_column(source=RecordHeader("m")), {}, {"n": 3}, {"headers": {"m": b"3"}}),
        Accepted(with_column(source=RecordHeader("m"), written=GERMAN), {}, {"n": 1234}, {"headers": {"m": b"1.234"}}),
        *(
            Accepted(
                with_column(type_="BINARY", source=RecordHeader("m"), written=form),
                {},
                {"n": b"\x01"},
                {"headers": {"m": text}},
            )
            for form, text in (("base64", b"AQ=="), ("base64url", b"AQ"), ("hex", b"01"))
        ),
    ),
    Example(
        "column n: written=TextBoolean(true=[1], false=['N']) is not allowed for the key of the record",
        OF_PARTS,
        with_column(type_="BOOLEAN", source=RecordKey(), written=TextBoolean([1], ["N"])),
        Accepted(with_column(type_="BOOLEAN", source=RecordKey()), {}, {"n": True}, {"key": b"true"}),
        Accepted(
            with_column(type_="BOOLEAN", source=RecordKey(), written=TextBoolean(["1"], ["N"])),
            {},
            {"n": True},
            {"key": b"1"},
        ),
    ),
    Example(
        "column n: written='text' does not fit STRING",
        OF_TEXT,
        with_column(type_="STRING", written="text"),
        accept(with_column(type_="STRING"), {"n": "3"}, n="3"),
        accept(with_column(type_="BOOLEAN", written="text"), {"n": "true"}, n=True),
        accept(
            with_column(type_="TIMESTAMP", written=Time(epoch="seconds", written="text")),
            {"n": "86400"},
            n=datetime(1970, 1, 2, tzinfo=UTC),
        ),
    ),
    Example(
        "column n: written='text' does not fit DATE with a pattern",
        OF_TEXT,
        with_column(type_="DATE", written=Time("%Y%m%d", written="text")),
        accept(with_column(type_="DATE", written=Time("%Y%m%d")), {"n": "20260131"}, n=DAY),
    ),
    Example(
        "column n: written='text_or_number' does not fit BOOLEAN",
        "It is for numbers, STRING, and times with a pattern or an epoch. Remove written, or, for a BOOLEAN, declare"
        ' TextBoolean(true=["true", True], false=["false", False]).',
        with_column(type_="BOOLEAN", written="text_or_number"),
        accept(with_column(type_="BOOLEAN"), {"n": True}, n=True),
        accept(
            with_column(type_="BOOLEAN", written=TextBoolean(true=["true", True], false=["false", False])),
            {"n": False},
            n=False,
        ),
        accept(with_column(type_="STRING", written="text_or_number"), {"n": 3}, n="3"),
    ),
    Example(
        "column n: written='number' does not fit INT",
        OF_NUMBER,
        with_column(written="number"),
        accept(with_column(), {"n": 3}, n=3),
        accept(with_column(type_="STRING", written="number"), {"n": 2**70}, n=str(2**70)),
        accept(with_column(type_="DATE", written=Time("%Y%m%d", written="number")), {"n": 20260131}, n=DAY),
    ),
    Example(
        "column n: written='number' does not fit TIMESTAMP with an epoch",
        OF_NUMBER,
        with_column(type_="TIMESTAMP", written=Time(epoch="seconds", written="number")),
        with_column(type_="TIMESTAMP", written=Time(epoch="seconds")),
    ),
    Example(
        "column n: written='json' does not fit INT",
        "The text of a JSON value is a STRING. Declare STRING, or remove written.",
        with_column(written="json"),
        accept(with_column(type_="STRING", written="json"), {"n": {"a": [1]}}, n='{"a":[1]}'),
        accept(with_column(), {"n": 3}, n=3),
    ),
    Example(
        "column n: written='connect' does not fit DOUBLE",
        "These values are decimals. Declare DECIMAL(precision,scale), or remove written.",
        with_column(type_="DOUBLE", written="connect"),
        accept(with_column(type_="DECIMAL(9,2)", written="connect"), {"n": "AeJA"}, n=Decimal("1234.56")),
        with_column(type_="DOUBLE"),
    ),
    Example(
        "column n: written=TextNumber(suffix=' %') does not fit STRING",
        "It is for numbers, and for times with an epoch. Declare such a column, or remove written.",
        with_column(type_="STRING", written=TextNumber(suffix=" %")),
        accept(with_column(written=TextNumber(suffix=" %")), {"n": "3 %"}, n=3),
        with_column(type_="STRING"),
    ),
    Example(
        "column n: written=TextBoolean(true=['Y'], false=['N']) does not fit STRING",
        "It is for booleans. Declare BOOLEAN, or remove written.",
        with_column(type_="STRING", written=TextBoolean(["Y"], ["N"])),
        accept(with_column(type_="BOOLEAN", written=TextBoolean(["Y"], ["N"])), {"n": "Y"}, n=True),
        with_column(type_="STRING"),
    ),
    Example(
        "column n: the pattern %Y-%m-%d does not match a number",
        "A number has only digits, and no zero in front. Write a pattern that begins with %Y, such as %Y%m%d.",
        with_column(type_="DATE", written=Time("%Y-%m-%d", written="number")),
        accept(with_column(type_="DATE", written=Time("%Y%m%d", written="number")), {"n": 20260131}, n=DAY),
    ),
    Example(
        "column n: the pattern %d%m%Y does not match a number",
        "A number has only digits, and no zero in front. Write a pattern that begins with %Y, such as %Y%m%d.",
        with_column(type_="DATE", written=Time("%d%m%Y", written="text_or_number")),
        accept(with_column(type_="DATE", written=Time("%Y%m%d", written="text_or_number")), {"n": "20260131"}, n=DAY),
    ),
    Example(
        "column n: TextNumber(prefix='\\ud800') is not valid UTF-8",
        "No record can contain it. Correct it.",
        with_column(written=TextNumber(prefix="\ud800")),
        accept(with_column(written=TextNumber(prefix="€")), {"n": "€3"}, n=3),
    ),
    Example(
        "column n: decimal is ''",
        WRONG_DECIMAL,
        with_column(written=TextNumber(decimal="")),
        accept(with_column(type_="DECIMAL(9,2)", written=TextNumber(decimal=",")), {"n": "1,5"}, n=Decimal("1.50")),
    ),
    Example(
        "column n: thousands is '.'",
        WRONG_THOUSANDS,
        with_column(written=TextNumber(thousands=".")),
        accept(with_column(written=GERMAN), {"n": "1.234"}, n=1234),
        accept(with_column(written=TextNumber(thousands="'")), {"n": "1'234"}, n=1234),
    ),
    Example(
        "column n: prefix 'No.' may be read as a part of the number",
        "Begin and end it with a character that no number has, for example a letter or a space.",
        with_column(written=TextNumber(prefix="No.")),
        accept(with_column(written=TextNumber(prefix="No. ")), {"n": "No. 3"}, n=3),
        accept(with_column(written=TextNumber(prefix="No")), {"n": "No-3"}, n=-3),
    ),
    Example(
        "column n: suffix ',-' may be read as a part of the number",
        "Begin it with a character that no number has, for example a letter or a space.",
        with_column(written=TextNumber(decimal=",", suffix=",-")),
        accept(with_column(written=TextNumber(decimal=",", suffix=" ,-")), {"n": "3 ,-"}, n=3),
    ),
    Example(
        "column n: TextBoolean: false is empty",
        "List the values that mean false, exactly as records contain them.",
        with_column(type_="BOOLEAN", written=TextBoolean(["Y"], [])),
        accept(with_column(type_="BOOLEAN", written=TextBoolean(["Y"], [""])), {"n": ""}, n=False),
    ),
    Example(
        "column n: TextBoolean(true=['\\ud800'], false=['N']) is not valid UTF-8",
        "No record can contain it. Correct it.",
        with_column(type_="BOOLEAN", written=TextBoolean(["\ud800"], ["N"])),
        with_column(type_="BOOLEAN", written=TextBoolean(["Y"], ["N"])),
    ),
    Example(
        "column n: the value 1 means both true and false",
        "Remove it from one of the two lists.",
        with_column(type_="BOOLEAN", written=TextBoolean(["Y", 1], [1])),
        accept(with_column(type_="BOOLEAN", written=TextBoolean(["Y", 1], [True])), {"n": True}, n=False),
    ),
    Example(
        "column n: written: true: each item must be a string, True or False or an integer, not 0.5",
        "Declare a string, True or False or an integer.",
        with_column(type_="BOOLEAN", written=TextBoolean([0.5], ["N"])),  # type: ignore[list-item]
        with_column(type_="BOOLEAN", written=TextBoolean([1], ["N"])),
    ),
    Example(
        "column m: formerly o.a, but column n reads it now",
        "A field must have one meaning. Remove formerly, and have old records sent again.",
        with_columns(column("n", "STRING", source="o", written="json"), column("m", formerly=("o", "a"))),
        accept(
            with_columns(column("n", "STRING", source="o", written="json"), column("m")),
            {"o": {"a": 1}, "m": 2},
            n='{"a":1}',
            m=2,
        ),
    ),
    Example(
        "column price: format ConnectJson and written='connect' cannot be combined",
        "The schema of a record says how its decimals are written. Remove written. If the records have no schemas,"
        " declare Json(), and each column with a path, such as source=('payload', 'price').",
        with_columns(column("price", "DECIMAL(9,2)", written="connect"), format=ConnectJson()),
        with_columns(column("price", "DECIMAL(9,2)"), format=ConnectJson()),
        with_columns(column("price", "DECIMAL(9,2)", source=("payload", "price"), written="connect")),
    ),
    Example(
        "column price: format Debezium and written cannot be combined",
        OF_CONNECTOR,
        lambda: declare(columns=[KEY, column("price", "DECIMAL(9,2)", written="text")], format=Debezium()),
        lambda: declare(
            columns=[KEY, column("price", "DECIMAL(9,2)")], format=Debezium(decimal_handling_mode="string")
        ),
        lambda: declare(
            columns=[
                KEY,
                column("text", "STRING"),
                computed("CAST(text AS DECIMAL(9,2))", "price", "DECIMAL(9,2)"),
            ],
            format=Debezium(),
        ),
    ),
]
