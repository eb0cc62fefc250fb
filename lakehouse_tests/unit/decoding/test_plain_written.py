"""Values that are not in JSON's own form: the fast path decodes them like the strict path, without exception."""

import json
from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from lakehouse.declaration import Column, RecordHeader, RecordKey, TextBoolean, TextNumber, Time
from lakehouse.declaration.rules.column_rules import column_problems
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.written_forms import BYTE_FORMS
from lakehouse_tests.helpers.decoding.both_paths import (
    batch_of,
    count_generated,
    decode_like_strictly,
    decode_twice,
    one_column,
)
from lakehouse_tests.helpers.decoding.native import uncertain_records
from lakehouse_tests.helpers.tables.written import EDGES, NUMBERS, ODD_VALUES, WrittenBatch

TEXT_EDGES = (
    "5. +5 -5 --5 +-5 5- -5- .5 -.5 . - + 007 -007 00 0 -0 0.0 -0.0 1e5 1E-5 1e400 1e-400 1e99 1e100 5e 5e+ 1_0 0x1 1d"
    " inf nan Infinity \u0665 ½ 1,5 1.234 1.234,5 1,234 1,234.5 12,34 1234,567 1,2345 1,,234 ,234 1'234 12.345,67"
    " 2147483647 2147483648 -2147483649 9223372036854775807 9223372036854775808 8999999999999999999 0.005 1.005 2.675"
    " 0.49999999999999999999999999999999999 123456789012345678901234567890123456789 12345678901234567890.5"
    " 0.1 0.30000000000000004 9007199254740993 9007199254740993.5 99999.995 -99999.995 0.0000005"
    " 1769855400 1769855400123 1769855400.1234565 -1769855400.5 253402300800 719163 -719163 99991231"
    " EUR5 EUR+5 +EUR5 EUR 5 5% 5EUR EUR5-% €5 1e5% true false Y N yes True TRUE 20260131 20260230 2026-01-31"
).split(" ")
TEXTS = [f'"{text}"' for text in (*TEXT_EDGES, *EDGES, "", " 5", "5 ", "5\\n", "\\u0035", "EUR 5", "-EUR 5", "EUR -5-")]
LONG_TEXTS = [f'"{text}"' for text in ("1" * 31, "1" * 400, "0." + "1" * 31, "1,234" * 9, "1" + ",234" * 20)]
JSON_TEXTS = [
    *('{"b":1,"a":[1,2,{}]}', '{"b":1.10}', '{"b":"1.5 2e"}', '{"a":-0}', '{"a":{"a":1,"a":2}}', "[[[]]]", "-0"),
    *('{"é":"\\u00e9\\n\\/\\u0000\\u001f\\u007f\\u2028"}', '["\\ud83d\\ude00"]', '["\\ud800"]', '{"\\udc00":1}'),
    *("[1e400]", "[1e99999999999999999999]", "[18446744073709551615]", "[18446744073709551616]", "123e5", "1E-6"),
    *("[" * depth + "]" * depth for depth in (49, 50, 51, 254, 255, 300)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (49, 50, 51, 300)),
]
CONNECT_TEXTS = [
    *(f'"{b64encode(data).decode()}"' for data in (b"\x00", b"\xff", b"\x01\xe2\x40", b"\x7f" * 8, b"\x80" * 8)),
    *(f'"{b64encode(data).decode()}"' for data in (b"", b"\x01" * 9, b"\x01" * 16, b"\x01" * 65, b"\x00" * 64)),
    *('"AeJA="', '"AeJ"', '"AQ="', '"AQ"', '"AR=="', '"AQ==AQ=="', '"A Q=="', '"-_=="', '"AQ==\\n"', '"é"', '"===="'),
    *('{"scale":2,"value":"AeJA"}', '{"value":"AeJA","scale":0}', '{"scale":-3,"value":"AeJA"}', '{"value":"AQ=="}'),
    *('{"scale":2.0,"value":"AeJA"}', '{"scale":"2","value":"AeJA"}', '{"scale":2,"value":"AeJA","x":1}', "{}"),
    *(
        '{"scale":1001,"value":"AQ=="}',
        '{"scale":2,"value":5}',
        '{"scale":null,"value":"AQ=="}',
        '{"scale":2,"value":null}',
    ),
    *('{"scale":true,"value":"AQ=="}', '{"scale":99999999999999999999,"value":"AQ=="}', '{"scale":38,"value":"AQ=="}'),
]
GERMAN = TextNumber(decimal=",", thousands=".", prefix="EUR ", trailing_sign=True)
NUMBER_FORMS: list[Any] = [
    *("text", "text_or_number", "unsigned", TextNumber(or_number=True, suffix="%"), TextNumber(thousands=","), GERMAN),
    *(
        TextNumber(thousands="'"),
        TextNumber(decimal=",", or_number=True),
        TextNumber(prefix="€", suffix=" \t"),
        TextNumber(),
    ),
    *(TextNumber(trailing_sign=True, suffix="%"), TextNumber(decimal="·", thousands="\xa0"), TextNumber(prefix="EUR")),
]
BOOLEAN_FORMS: list[Any] = [
    *("text", TextBoolean(["Y", "yes"], ["N", "false"]), TextBoolean([1, "true", True], [0, "0", False, ""])),
    TextBoolean([True, "1"], [0, 2]),
]

RIGHT_TEXTS = (
    "AQI=",
    "AQI",
    "AQ==",
    "AQ",
    "+/+/",
    "-_-_",
    "00ff",
    "00FF",
    "aBcD",
    "",
    "AAAA",
    b64encode(bytes(99)).decode(),
)
WRONG_TEXTS = ("A", "=", "====", "AQI==", "AR==", "AR", " AQI=", "AQI=\\n", "é", "\\ud800", "\\u0041QI=", "0x00", "00f")
BYTE_TEXTS = [f'"{text}"' for text in (*RIGHT_TEXTS, *WRONG_TEXTS, "x" * 999, "A" * 10**5, "A" * (10**5 + 1))]
BYTE_OPTIONS: list[Any] = [
    *({}, {"required": True}, {"null_values": ("", "AQ", "1.5")}, {"default": "0000"}),
    *({"keep": True, "null_erases": True}, {"formerly": "old"}, {"source": ("o", "n"), "null_values": ("00ff",)}),
]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("written", NUMBER_FORMS, ids=repr)
@pytest.mark.parametrize("type_", ["INT", "BIGINT", "DOUBLE", "DECIMAL(9,3)", "DECIMAL(38,18)"])
def test_every_odd_number_as_text_has_equal_results(type_: str, written: Any) -> None:
    texts = [*TEXTS, *LONG_TEXTS, *EDGES, *ODD_VALUES]
    decode_like_strictly(one_column(Column("n", type_, "A number.", written=written), texts))
    rules: Any = {"between": (-1, 1234.5), "null_values": ("0", "-5", ""), "required": True}
    decode_like_strictly(one_column(Column("n", type_, "A number.", written=written, **rules), texts))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("written", ["text", "text_or_number", TextNumber(thousands=",")], ids=repr)
@pytest.mark.parametrize("epoch", ["seconds", "milliseconds", "microseconds", "days"])
def test_every_odd_epoch_as_text_has_equal_results(epoch: Any, written: Any) -> None:
    type_ = "DATE" if epoch == "days" else "TIMESTAMP"
    column = Column("n", type_, "A time.", written=Time(epoch=epoch, written=written), null_values=("0",))
    decode_like_strictly(one_column(column, [*TEXTS, *LONG_TEXTS, *EDGES, *ODD_VALUES]))
    whole_texts = [text for text in TEXTS if text.strip('"-').isdigit()]
    decode_like_strictly(one_column(column, whole_texts))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("written", BOOLEAN_FORMS, ids=repr)
@pytest.mark.parametrize("rules", [{}, {"null_values": ("N", "0")}, {"required": True}])
def test_every_odd_boolean_has_equal_results(written: Any, rules: Any) -> None:
    column = Column("n", "BOOLEAN", "A flag.", written=written, **rules)
    decode_like_strictly(one_column(column, [*TEXTS, *EDGES, *ODD_VALUES]))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("written", ["number", "text_or_number"])
@pytest.mark.parametrize(
    ("type_", "pattern"),
    [("STRING", None), ("DATE", "%Y%m%d"), ("TIMESTAMP", "%Y%m%d"), ("TIMESTAMP", "%Y%m%d%H%M%S"), ("DATE", "%Y")],
)
def test_every_odd_number_with_a_pattern_has_equal_results(type_: str, pattern: Any, written: Any) -> None:
    column = Column("n", type_, "Digits.", written=Time(pattern, written=written), null_values=("99991231",))
    digits = (
        "20260131 20260230 99991231 20260131101530 20261331 2026013 -20260131 20260131.0 2.0260131e7 2026 0 1e3".split()
    )
    texts = [*digits, *(f'"{text}"' for text in digits), *TEXTS, *EDGES, *ODD_VALUES]
    decode_like_strictly(one_column(column, texts))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("rules", [{}, {"null_values": ("x", "0", "1.5")}, {"required": True}, {"default": 5}])
def test_every_odd_json_text_has_equal_results(rules: Any) -> None:
    column = Column("n", "STRING", "JSON.", written="json", **rules)
    decode_like_strictly(one_column(column, [*JSON_TEXTS, *TEXTS, *EDGES, *ODD_VALUES]))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("type_", ["DECIMAL(5,0)", "DECIMAL(9,6)", "DECIMAL(38,18)", "DECIMAL(38,38)"])
@pytest.mark.parametrize("rules", [{}, {"between": (0, 0.5)}, {"null_values": ("AeJA",)}, {"default": "AA=="}])
def test_every_odd_decimal_of_connect_has_equal_results(type_: str, rules: Any) -> None:
    column = Column("n", type_, "A number.", written="connect", **rules)
    decode_like_strictly(one_column(column, [text for text in CONNECT_TEXTS if not text.startswith("{")]))
    decode_like_strictly(one_column(column, [*CONNECT_TEXTS, *EDGES, *ODD_VALUES]))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("options", BYTE_OPTIONS, ids=repr)
@pytest.mark.parametrize("form", BYTE_FORMS)
def test_every_odd_text_of_bytes_has_equal_results(form: Any, options: Any) -> None:
    column = Column("n", "BINARY", "Bytes.", written=form, **options)
    rows = decode_like_strictly(one_column(column, [*BYTE_TEXTS, *EDGES, *ODD_VALUES]))
    assert "source" in options or {row["_reason"] is None for row in rows} == {True, False}


DIGITS = st.text("0123456789", min_size=1, max_size=22)
NUMBER_TEXTS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "", "-", "+"]),
    st.sampled_from(["", "EUR "]),
    DIGITS,
    st.sampled_from(["", ".5", ",25", ".125", ",999.5", ".999,5", "e5", "-"]),
    st.sampled_from(["", "", "-", "%"]),
)
ENCODED_BYTES = st.binary(max_size=12).flatmap(
    lambda data: st.sampled_from([b64encode(data).decode(), b64encode(data).decode().rstrip("="), data.hex()])
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)


def json_values() -> st.SearchStrategy[str]:
    values = st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    )
    return values.map(lambda value: json.dumps(value, ensure_ascii=False).replace("Infinity", "1e9"))


@st.composite
def written_columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(
        st.sampled_from(
            ["number", "number", "boolean", "digits", "json", "connect", "epoch", "plain", "bytes", "bytes"]
        )
    )
    rules: dict[str, Any] = {"source": draw(st.sampled_from(["a", "b", ("o", "a")]))}
    if draw(st.booleans()):
        rules["null_values"] = ("", "0", "N")
    if kind == "number":
        type_, rules["written"] = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBER_FORMS))
    elif kind == "boolean":
        type_, rules["written"] = "BOOLEAN", draw(st.sampled_from(BOOLEAN_FORMS))
    elif kind == "digits":
        type_, rules["written"] = "STRING", draw(st.sampled_from(["number", "text_or_number"]))
    elif kind == "epoch":
        forms = [form for form in NUMBER_FORMS if form != "unsigned"]
        type_, rules["written"] = "TIMESTAMP", Time(epoch="milliseconds", written=draw(st.sampled_from(forms)))
    elif kind == "bytes":
        type_, rules["written"] = "BINARY", draw(st.sampled_from(BYTE_FORMS))
    elif kind == "plain":
        type_ = draw(st.sampled_from(["STRING", "DOUBLE"]))
    else:
        type_, rules["written"] = {"json": "STRING", "connect": "DECIMAL(18,2)"}[kind], kind
    column = Column(name, type_, "A field.", **rules)
    assert not [*column_problems(column)]
    return column


@st.composite
def written_batches(draw: st.DrawFn) -> WrittenBatch:
    declared_columns = [draw(written_columns(f"c{nth}")) for nth in range(draw(st.integers(1, 4)))]
    texts = st.sampled_from([*TEXTS, *CONNECT_TEXTS, *JSON_TEXTS[:20], *ODD_VALUES, *EDGES]) | json_values()
    texts |= (NUMBER_TEXTS | ENCODED_BYTES).map('"{}"'.format) | st.sampled_from(BYTE_TEXTS[:-3])
    pairs = st.lists(st.tuples(st.sampled_from(["a", "b", "o", "x"]), texts), max_size=4)
    records: list[bytes | None] = []
    for members in draw(st.lists(pairs, min_size=1, max_size=6)):
        inner = [f'"{name}":{text}' for name, text in members if draw(st.integers(0, 3)) or name != "o"]
        inner += [f'"o":{{"a":{draw(texts)}}}'] if draw(st.booleans()) else []
        record = f"{{{','.join(inner)}}}".encode("utf-8", "surrogatepass")
        records.append(record if draw(st.integers(0, 19)) else record[: draw(st.integers(0, len(record)))])
    return batch_of(records, *declared_columns)


@pytest.mark.invariant("8.10")
def test_generated_and_damaged_records_have_equal_results() -> None:
    counts = count_generated(written_batches())
    assert 50 < counts["plain"] <= counts["valid"] < counts["rows"]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("source", [RecordKey(), RecordHeader("price")])
@pytest.mark.parametrize(
    ("type_", "written"), [("DECIMAL(9,2)", GERMAN), ("INT", TextNumber()), ("BOOLEAN", TextBoolean(["Y"], ["N"]))]
)
def test_a_key_and_a_header_have_equal_results(source: Any, type_: str, written: Any) -> None:
    field = Column("n", type_, "A part.", source=source, written=written, null_values=("0",)).field
    texts = [None, *(text.strip('"').encode() for text in TEXTS), b"\xff", b"EUR 1.234,50-", b"Y"]
    decoded = decode_twice([b"{}"] * len(texts), Rules((field,), None), {source.part: texts})
    assert any(row["n"] is not None for row in decoded.verdicts.to_pylist())


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("form", [None, *BYTE_FORMS])
@pytest.mark.parametrize("source", [RecordKey(), RecordHeader("raw")])
def test_bytes_in_a_key_and_a_header_have_equal_results(source: Any, form: Any) -> None:
    field = Column("n", "BINARY", "A part.", source=source, written=form).field
    texts = [None, b"", b"\xff\x00", b"00ff", b"AQI=", b"AQI", b"-_-_", "é".encode(), b"1e99999999999999999999"]
    decoded = decode_twice([b"{}"] * len(texts), Rules((field,), None), {source.part: texts})
    rows = decoded.verdicts.to_pylist()
    assert [row["n"] for row in rows] == texts if form is None else b"" in [row["n"] for row in rows]


@pytest.mark.invariant("8.10")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("written", ["text", GERMAN, TextNumber(thousands=",", suffix="x")], ids=repr)
def test_a_text_of_the_maximum_size_is_decoded_quickly(written: Any) -> None:
    """Time in proportion to the square of its length would stop a table for half an hour, at each new start."""
    texts = [f'"{text}"' for text in ("1" * 10**6, "EUR " + "1" * 10**6 + "x", "1" + ",234" * 250_000, "-" * 10**6)]
    for type_ in ("BIGINT", "DOUBLE", "DECIMAL(9,2)"):
        decode_like_strictly(one_column(Column("n", type_, "A number.", written=written), texts))


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize(
    ("type_", "written"),
    [("STRING", "json"), ("INT", "text_or_number"), ("BOOLEAN", TextBoolean(["1"], [1])), ("DECIMAL(9,2)", "connect")],
)
def test_a_path_through_any_value_and_a_duplicate_name_have_equal_results(type_: str, written: Any) -> None:
    column = Column("n", type_, "A field.", source=("o", "n"), written=written)
    texts = [f'{{"o":{text}}}' for text in ODD_VALUES]
    texts += [f'{{"o":{{"n":{text},"x":"1"}},"y":"1"}}' for text in ('"1"', "1", "null", '{"a":"1"}')]
    texts += [text.replace('"x":"1"', '"n":"1"') for text in texts] + [text.replace("}", ',"y":2}') for text in texts]
    decode_like_strictly(batch_of(texts, column))


PLAIN_COLUMNS = {
    "text": Column("n", "DECIMAL(9,2)", "A number.", written="text"),
    "mixed": Column("n", "DOUBLE", "A number.", written="text_or_number"),
    "whole": Column("n", "BIGINT", "A number.", written=TextNumber(thousands=",")),
    "separators": Column("n", "DECIMAL(9,2)", "A number.", written=GERMAN),
    "epoch": Column("n", "TIMESTAMP", "A time.", written=Time(epoch="milliseconds", written="text")),
    "flag": Column("n", "BOOLEAN", "A flag.", written=TextBoolean(["Y", 1], ["N", 0])),
    "day": Column("n", "DATE", "A day.", written=Time("%Y%m%d", written="number")),
    "digits": Column("n", "STRING", "Digits.", written="text_or_number"),
    "json": Column("n", "STRING", "JSON.", written="json"),
    "connect": Column("n", "DECIMAL(9,2)", "A number.", written="connect"),
    "unsigned": Column("n", "DECIMAL(20,0)", "A number.", written="unsigned"),
    **{form: Column("n", "BINARY", "Bytes.", written=form) for form in BYTE_FORMS},  # type: ignore[arg-type]
}
PLAIN_TEXTS = {
    "text": ['"12.5"', '"-0.05"', '"007"', "null"],
    "mixed": ['"12.5"', "12.5", '"1e3"', "7", "null"],
    "whole": ['"1,234"', '"-5"'],
    "separators": ['"EUR 1.234,50"', '"EUR 5-"', '"-EUR 5,1"'],
    "unsigned": ["0", "922337203685477", "null"],
    "epoch": ['"1769855400123"', '"1769855400123.5"'],
    "flag": ['"Y"', '"N"', "1", "0", "null"],
    "day": ["20260131", "null"],
    "digits": ["5", '"5"', "123456789012345678"],
    "json": ['{"a":[1,"x",null]}', '"1.5"', "5", "[]", "null", '{"a.b":"2.5"}'],
    "connect": ['"AeJA"', '"/w=="', "null"],
    **{form: ['"00ff"', '"AAAA"', '""', "null"] for form in BYTE_FORMS},
}


@pytest.mark.parametrize("name", PLAIN_TEXTS)
def test_ordinary_values_are_plain(name: str) -> None:
    batch = one_column(PLAIN_COLUMNS[name], PLAIN_TEXTS[name])
    rows = decode_like_strictly(batch)
    assert [row["_reason"] for row in rows] == [None] * len(rows)
    assert uncertain_records(pa.array(batch.values, pa.binary()), None, batch.rules) == []
