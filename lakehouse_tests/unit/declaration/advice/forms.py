"""How records write values: forms that do not fit the column, separators, and the values of booleans."""

from datetime import UTC, date, datetime
from decimal import Decimal

from lakehouse.declaration import Avro, ConnectJson, Debezium, RecordHeader, RecordKey, TextBoolean, TextNumber, Time
from lakehouse_tests.unit.declaration.advice.example import (
    Accepted,
    Example,
    accept,
    of_column,
    reads,
    reads_header,
    reads_key,
)
from lakehouse_tests.unit.declaration.ratings import column, computed, declare, with_column, with_columns

DAY = date(2026, 1, 31)
KEY = column("id", "BIGINT", required=True)
GERMAN = TextNumber(decimal=",", thousands=".")
FORMS = (
    "text, text_or_number, number, unsigned, json, otlp, connect, base64, base64url or hex, a TextNumber,"
    " a TextBoolean, a KeyValues or a Time"
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
    " decimal_handling_mode='string'. For other numbers and booleans, declare TextNumber() or TextBoolean(...)."
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
        reads("5", 5, written="text"),
        reads("5 %", 5, written=TextNumber(suffix=" %")),
    ),
    Example(
        "column n: written is not allowed for ARRAY<INT>",
        "A field within an object can be a column of its own, with its path as source and with written. For values"
        " within arrays and maps, declare STRING if they are texts.",
        with_column(type_="ARRAY<INT>", written="text"),
        accept(with_column(written="text", source=("a", "m")), {"a": {"m": "3"}}, n=3),
        reads(["3"], ["3"], type_="ARRAY<STRING>"),
    ),
    Example(
        "column n: written and RecordKey('big_endian') cannot be combined",
        "The key is either a text or the bytes of a number. Remove one of the two.",
        with_column(source=RecordKey("big_endian"), written=TextNumber()),
        reads_key(bytes([0, 0, 0, 3]), 3, source=RecordKey("big_endian")),
        reads_key(b"003", 3, source=RecordKey(), written=TextNumber()),
    ),
    Example(
        "column n: written='text' is not allowed for the header m",
        OF_PARTS,
        with_column(source=RecordHeader("m"), written="text"),
        reads_header(b"3", 3, source=RecordHeader("m")),
        reads_header(b"1.234", 1234, source=RecordHeader("m"), written=GERMAN),
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
        reads_key(b"true", True, type_="BOOLEAN", source=RecordKey()),
        reads_key(b"1", True, type_="BOOLEAN", source=RecordKey(), written=TextBoolean(["1"], ["N"])),
    ),
    Example(
        "column n: written='text' does not fit STRING",
        OF_TEXT,
        with_column(type_="STRING", written="text"),
        reads("3", "3", type_="STRING"),
        reads("true", True, type_="BOOLEAN", written="text"),
        reads(
            "86400", datetime(1970, 1, 2, tzinfo=UTC), type_="TIMESTAMP", written=Time(epoch="seconds", written="text")
        ),
    ),
    Example(
        "column n: written='text' does not fit DATE with a pattern",
        OF_TEXT,
        with_column(type_="DATE", written=Time("%Y%m%d", written="text")),
        reads("20260131", DAY, type_="DATE", written=Time("%Y%m%d")),
    ),
    Example(
        "column n: written='text_or_number' does not fit BOOLEAN",
        "It is for numbers, STRING, and times with a pattern or an epoch. Remove written, or, for a BOOLEAN, declare"
        ' TextBoolean(true=["true", True], false=["false", False]).',
        with_column(type_="BOOLEAN", written="text_or_number"),
        reads(True, True, type_="BOOLEAN"),
        reads(False, False, type_="BOOLEAN", written=TextBoolean(true=["true", True], false=["false", False])),
        reads(3, "3", type_="STRING", written="text_or_number"),
    ),
    Example(
        "column n: written='number' does not fit INT",
        OF_NUMBER,
        with_column(written="number"),
        reads(3, 3),
        reads(2**70, str(2**70), type_="STRING", written="number"),
        reads(20260131, DAY, type_="DATE", written=Time("%Y%m%d", written="number")),
    ),
    of_column(
        "written='number' does not fit TIMESTAMP with an epoch",
        OF_NUMBER,
        type_="TIMESTAMP",
        written=[Time(epoch="seconds", written="number"), Time(epoch="seconds")],
    ),
    Example(
        "column n: written='json' does not fit INT",
        "The text of a JSON value is a STRING. Declare STRING, or remove written.",
        with_column(written="json"),
        reads({"a": [1]}, '{"a":[1]}', type_="STRING", written="json"),
        reads(3, 3),
    ),
    Example(
        "column n: written='connect' does not fit DOUBLE",
        "These values are decimals. Declare DECIMAL(precision,scale), or remove written.",
        with_column(type_="DOUBLE", written="connect"),
        reads("AeJA", Decimal("1234.56"), type_="DECIMAL(9,2)", written="connect"),
        with_column(type_="DOUBLE"),
    ),
    Example(
        "column n: written=TextNumber(suffix=' %') does not fit STRING",
        "It is for numbers, and for times with an epoch. Declare such a column, or remove written.",
        with_column(type_="STRING", written=TextNumber(suffix=" %")),
        reads("3 %", 3, written=TextNumber(suffix=" %")),
        with_column(type_="STRING"),
    ),
    Example(
        "column n: written=TextBoolean(true=['Y'], false=['N']) does not fit STRING",
        "It is for booleans. Declare BOOLEAN, or remove written.",
        with_column(type_="STRING", written=TextBoolean(["Y"], ["N"])),
        reads("Y", True, type_="BOOLEAN", written=TextBoolean(["Y"], ["N"])),
        with_column(type_="STRING"),
    ),
    Example(
        "column n: the pattern %Y-%m-%d does not match a number",
        "A number has only digits, and no zero in front. Write a pattern that begins with %Y, such as %Y%m%d.",
        with_column(type_="DATE", written=Time("%Y-%m-%d", written="number")),
        reads(20260131, DAY, type_="DATE", written=Time("%Y%m%d", written="number")),
    ),
    Example(
        "column n: the pattern %d%m%Y does not match a number",
        "A number has only digits, and no zero in front. Write a pattern that begins with %Y, such as %Y%m%d.",
        with_column(type_="DATE", written=Time("%d%m%Y", written="text_or_number")),
        reads("20260131", DAY, type_="DATE", written=Time("%Y%m%d", written="text_or_number")),
    ),
    Example(
        "column n: TextNumber(prefix='\\ud800') is not valid UTF-8",
        "No record can contain it. Correct it.",
        with_column(written=TextNumber(prefix="\ud800")),
        reads("€3", 3, written=TextNumber(prefix="€")),
    ),
    Example(
        "column n: decimal is ''",
        WRONG_DECIMAL,
        with_column(written=TextNumber(decimal="")),
        reads("1,5", Decimal("1.50"), type_="DECIMAL(9,2)", written=TextNumber(decimal=",")),
    ),
    Example(
        "column n: thousands is '.'",
        WRONG_THOUSANDS,
        with_column(written=TextNumber(thousands=".")),
        reads("1.234", 1234, written=GERMAN),
        reads("1'234", 1234, written=TextNumber(thousands="'")),
    ),
    Example(
        "column n: prefix 'No.' may be read as a part of the number",
        "Begin and end it with a character that no number has, for example a letter or a space.",
        with_column(written=TextNumber(prefix="No.")),
        reads("No. 3", 3, written=TextNumber(prefix="No. ")),
        reads("No-3", -3, written=TextNumber(prefix="No")),
    ),
    Example(
        "column n: suffix ',-' may be read as a part of the number",
        "Begin it with a character that no number has, for example a letter or a space.",
        with_column(written=TextNumber(decimal=",", suffix=",-")),
        reads("3 ,-", 3, written=TextNumber(decimal=",", suffix=" ,-")),
    ),
    Example(
        "column n: TextBoolean: false is empty",
        "List the values that mean false, exactly as records contain them.",
        with_column(type_="BOOLEAN", written=TextBoolean(["Y"], [])),
        reads("", False, type_="BOOLEAN", written=TextBoolean(["Y"], [""])),
    ),
    of_column(
        "TextBoolean(true=['\\ud800'], false=['N']) is not valid UTF-8",
        "No record can contain it. Correct it.",
        type_="BOOLEAN",
        written=[TextBoolean(["\ud800"], ["N"]), TextBoolean(["Y"], ["N"])],
    ),
    Example(
        "column n: the value 1 means both true and false",
        "Remove it from one of the two lists.",
        with_column(type_="BOOLEAN", written=TextBoolean(["Y", 1], [1])),
        reads(True, False, type_="BOOLEAN", written=TextBoolean(["Y", 1], [True])),
    ),
    of_column(
        "written: true: each item must be a string, True or False or an integer, not 0.5",
        "Declare a string, True or False or an integer.",
        type_="BOOLEAN",
        written=[TextBoolean([0.5], ["N"]), TextBoolean([1], ["N"])],  # type: ignore[list-item]
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
