"""Decimals that lose digits: both paths count the same records, and a column may reject them."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Csv, Json, RecordHeader, Rejection, StreamTable
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

PRICE = Column("price", "DECIMAL(18,2)", "The price.")
COLUMNS = [Column("id", "BIGINT", "Number.", required=True), PRICE]
TABLE = StreamTable("t", "t", "T.", COLUMNS, ["id"])
ROWS = StreamTable("t", "t", "T.", COLUMNS, ["id"], rows_from="items")
NUMBERS = {
    "1.5": False,
    "1.50000": False,
    "150e-2": False,
    "0": False,
    "12345678901234.25": False,
    "1.5025": True,
    "-0.001": True,
    "1.005": True,
    "1e-400": True,
    "0.30000000000000004": True,
    "1.500000000000000000001": True,
    "10.000000000000000000001": True,
    "999999999999.999": True,
}


def rounded(table: StreamTable, values: list[bytes], **parts: list[bytes]) -> list[bool]:
    headers = {f"header {name}": contents for name, contents in parts.items()}
    return [verdict["_rounded"] for verdict in rows_twice(values, table.rules(), headers)]


@pytest.mark.invariant("13.1")
def test_a_record_is_counted_if_a_decimal_lost_digits() -> None:
    assert rounded(TABLE, [b'{"id": 1, "price": %s}' % text.encode() for text in NUMBERS]) == [*NUMBERS.values()]


def test_the_rows_of_a_record_are_counted_one_by_one() -> None:
    items = ", ".join(f'{{"id": 1, "price": {text}}}' for text in NUMBERS)
    (rows,) = rows_twice([f'{{"items": [{items}]}}'.encode()], ROWS.rules())
    assert [row["_rounded"] for row in rows] == [*NUMBERS.values()]


def test_numbers_that_are_texts_are_counted_like_others() -> None:
    texts = {text: is_rounded for text, is_rounded in NUMBERS.items() if "e" not in text}
    written = replace(TABLE, columns=[COLUMNS[0], replace(PRICE, written="text")])
    assert rounded(written, [b'{"id": 1, "price": "%s"}' % text.encode() for text in texts]) == [*texts.values()]
    of_csv = replace(TABLE, format=Csv(["id", "price"]))
    assert rounded(of_csv, [f"1,{text}".encode() for text in texts]) == [*texts.values()]
    of_header = replace(TABLE, columns=[COLUMNS[0], replace(PRICE, source=RecordHeader("p"))])
    headers = [text.encode() for text in texts]
    assert rounded(of_header, [b'{"id": 1}'] * len(texts), p=headers) == [*texts.values()]


def test_decimals_in_arrays_and_under_escaped_names_are_counted() -> None:
    many = replace(TABLE, columns=[COLUMNS[0], replace(PRICE, type="ARRAY<STRUCT<x: DECIMAL(9,2)>>")])
    values = [b'{"id": 1, "price": [{"x": 1}, {"x": 1.555}]}', b'{"id": 1, "price": [{"x": 1.5}, null]}']
    assert rounded(many, values) == [True, False]
    assert rounded(TABLE, [b'{"id": 1, "\\u0070rice": 1.500000000000000000001}']) == [True]


def test_a_table_without_decimals_counts_nothing_and_a_default_is_not_rounded_by_a_record() -> None:
    assert "_rounded" not in rows_twice([b'{"id": 1}'], replace(TABLE, columns=COLUMNS[:1]).rules())[0]
    with_default = replace(TABLE, columns=[COLUMNS[0], replace(PRICE, default=1.555)])
    assert rounded(with_default, [b'{"id": 1}', b'{"id": 1, "price": 2.555}']) == [False, True]


def test_a_column_that_rejects_rounding_rejects_the_records_that_others_count() -> None:
    table = replace(TABLE, columns=[COLUMNS[0], replace(PRICE, rounding="reject")])
    verdicts = rows_twice([b'{"id": 1, "price": %s}' % text.encode() for text in NUMBERS], table.rules())
    assert [verdict["_reason"] == "too_many_places" for verdict in verdicts] == [*NUMBERS.values()]
    with pytest.raises(Rejection, match=r"'price' is '1.5025', but DECIMAL\(18,2\) would round it"):
        table.decode(b'{"id": 1, "price": 1.5025}')
    many = replace(table, columns=[COLUMNS[0], Column("p", "ARRAY<DECIMAL(9,2)>", "P.", rounding="reject")])
    assert rows_twice([b'{"id": 1, "p": [1.555]}'], many.rules())[0]["_reason"] == "too_many_places"
    assert table.fingerprint != TABLE.fingerprint


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9), max_size=5))
def test_any_number_is_counted_by_both_paths_if_its_decimal_differs(numbers: list[Decimal]) -> None:
    values = [json.dumps({"id": 1}).encode()[:-1] + f', "price": {number:f}}}'.encode() for number in numbers]
    texts = [f"{number:f}" for number in numbers]
    expected = [Decimal(text) != round_half_up(Decimal(text)) for text in texts]
    assert rounded(replace(TABLE, format=Json()), values) == expected


def round_half_up(number: Decimal) -> Decimal:
    return number.quantize(Decimal("0.01"), rounding="ROUND_HALF_UP")
