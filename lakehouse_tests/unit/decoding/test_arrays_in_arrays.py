"""Rows of arrays in arrays: each element of the innermost array is a row, with fields of every element around it."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import (
    Column,
    Compressed,
    Deletes,
    Element,
    ElementIndex,
    Explode,
    FieldIs,
    Json,
    Late,
    ParentField,
    Rejection,
    StreamTable,
    Time,
)
from lakehouse.decoding.formats.unpacking.compression import compress
from lakehouse.decoding.one_record import judge_record
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice, spoiled
from lakehouse_tests.helpers.decoding.decoded_rows import element_rows
from lakehouse_tests.helpers.decoding.native import NATIVE, uncertain_records

SHOP, ORDER = "shops[]", "orders[]"
SKU = Column("sku", "STRING", "Article.", required=True)
SHOP_NAME = Column("shop", "STRING", "Shop.", source=ParentField((SHOP, "info", "name")), null_values=["-"])
ORDER_ID = Column("order_id", "BIGINT", "Order.", source=ParentField((SHOP, ORDER, "id")), required=True)
SENT_BY = Column("sent_by", "STRING", "Sender.", source=ParentField("sender"))
COLUMNS = [SENT_BY, SHOP_NAME, ORDER_ID, SKU]
ITEMS = StreamTable("items", "sales", "Items.", COLUMNS, ["order_id", "sku"], rows_from=(SHOP, ORDER, "items"))
FORMER = ParentField((SHOP, ORDER, "price"))
TABLES = {
    "keyed": ITEMS,
    "where": replace(ITEMS, where=FieldIs("sender", ["a"])),
    "deletes": replace(ITEMS, deletes=Deletes(when=FieldIs("gone", [True]))),
    "kept": replace(
        ITEMS,
        columns=[*COLUMNS, Column("price", "DECIMAL(9,2)", "Price.", source=FORMER, keep=True, null_erases=True)],
    ),
    "renamed": replace(
        ITEMS, columns=[*COLUMNS[:2], replace(ORDER_ID, formerly=(SHOP, ORDER, "number"), null_values=["7"]), SKU]
    ),
    "late": replace(
        ITEMS,
        columns=[
            *COLUMNS,
            Column("at", "TIMESTAMP", "When.", source=ParentField((SHOP, "at")), written=Time(epoch="seconds")),
        ],
        late=Late("at", timedelta(days=1)),
    ),
    "compressed": replace(ITEMS, format=Compressed(Json(), "gzip")),
    "whole": replace(
        ITEMS,
        columns=[SHOP_NAME, Column("item", "STRING", "Its text.", source=Element(), written="json")],
        key=[],
    ),
    "single object": replace(ITEMS, rows_from=Explode(ITEMS.rows_path or (), single_object=True)),
    "index": replace(
        ITEMS, columns=[ORDER_ID, Column("place", "INT", "Place.", source=ElementIndex())], key=["order_id"]
    ),
    "array": replace(
        ITEMS,
        columns=[Column("order_id", "BIGINT", "Order.", source=ParentField(("[]", "id"))), SKU],
        key=["sku"],
        rows_from=("[]", "items"),
    ),
    "path": replace(
        ITEMS,
        columns=[SENT_BY, Column("name", "STRING", "Name.", source=ParentField(("info", "shops[]", "name"))), SKU],
        key=["sku"],
        rows_from=("info", "shops[]", "more", "items"),
    ),
}


def order(number: Any, *items: Any, **fields: Any) -> dict[str, Any]:
    return {"id": number, "items": list(items)} | fields


def sale(*shops: Any, **fields: Any) -> bytes:
    return json.dumps({"sender": "a", "shops": list(shops)} | fields).encode()


def rows_of(table: StreamTable, value: bytes) -> list[Any]:
    return [tuple(row.values()) if isinstance(row, dict) else row for row in element_rows(table, value)]


NORTH = {"info": {"name": "north"}, "orders": [order(1, {"sku": "a"}, {"sku": "b"}), order(2, {"sku": "a"})]}
SOUTH = {"orders": [order(3), order(4, {"sku": "c"})]}


def test_each_row_has_the_fields_of_the_elements_around_it() -> None:
    expected_rows = [("a", "north", 1, "a"), ("a", "north", 1, "b"), ("a", "north", 2, "a"), ("a", None, 4, "c")]
    assert rows_of(ITEMS, sale(NORTH, SOUTH)) == expected_rows


def test_the_index_counts_all_rows_of_the_record() -> None:
    (rows,) = rows_twice([sale(NORTH, SOUTH)], ITEMS.rules())
    assert [row["_index"] for row in rows] == [0, 1, 2, 3]


def test_what_is_missing_or_null_on_the_way_has_no_row() -> None:
    assert rows_of(ITEMS, sale(None, {}, {"orders": None}, {"orders": [None, {"items": None}, {}]}, NORTH)) == [
        ("a", "north", 1, "a"),
        ("a", "north", 1, "b"),
        ("a", "north", 2, "a"),
    ]
    assert rows_of(ITEMS, sale()) == rows_of(ITEMS, sale({"orders": []})) == []


@pytest.mark.parametrize("shop", [7, "a", [], {"orders": {}}, {"orders": [1]}, {"orders": [{"items": {"sku": "a"}}]}])
def test_something_else_on_the_way_rejects_the_record_as_a_whole(shop: Any) -> None:
    value = sale(NORTH, shop)
    assert rows_of(ITEMS, value) == ["wrong_type"]
    assert [verdict.place for verdict in judge_record(value, ITEMS.rules(), {})] == [None]


def test_a_parent_that_cannot_be_read_rejects_only_the_rows_within_it() -> None:
    bad_order = order("x", {"sku": "d"}, {"sku": "e"})
    rows = rows_of(ITEMS, sale({"orders": [order(1, {"sku": "a"}), bad_order]}, {"info": 5, "orders": [order(2, {})]}))
    assert rows == [("a", None, 1, "a"), "wrong_type", "wrong_type", "wrong_type"]
    (_, rejection) = ITEMS.decode_rows(sale({"orders": [order(1, {"sku": "a"}), order("x", {"sku": "a"})]}))
    assert isinstance(rejection, Rejection)
    assert rejection.detail == "'shops[].orders[].id' is text 'x', expected BIGINT"


def test_messages_name_the_place_of_what_is_no_array() -> None:
    with pytest.raises(Rejection, match=r"'shops\[\].orders\[\].items' is text 'a', expected an array"):
        ITEMS.decode_rows(sale({"orders": [{"items": "a"}]}))


def test_texts_on_the_way_are_opened() -> None:
    shop = json.dumps(NORTH | {"orders": json.dumps(NORTH["orders"])})
    assert rows_of(ITEMS, sale(shop)) == rows_of(ITEMS, sale(NORTH))


def test_unmapped_fields_are_counted_at_each_level() -> None:
    value = sale(NORTH | {"x": 1}, {"orders": [order(4, {"sku": "c", "z": 1}, y=1)]}, w=1)
    counts = decode_twice([value], ITEMS.rules()).unmapped_counts
    assert counts == {"w": 1, "shops[].x": 1, "shops[].orders[].y": 1, "shops[].orders[].items[].z": 1}


def test_an_array_of_records_with_arrays_is_taken_apart() -> None:
    value = json.dumps([order(1, {"sku": "a"}), order(2, {"sku": "b"}, {"sku": "c"})]).encode()
    assert rows_of(TABLES["array"], value) == [(1, "a"), (2, "b"), (2, "c")]


@pytest.mark.invariant("8.11")
def test_a_long_text_of_a_parent_counts_for_the_rows_within_it() -> None:
    note = Column("note", "STRING", "A note.", source=ParentField((SHOP, "note")))
    table = replace(ITEMS, columns=[note, SKU], key=["sku"])

    def shop(size: int, count: int) -> dict[str, Any]:
        return {"note": "x" * size, "orders": [order(number, {"sku": "a"}) for number in range(count)]}

    assert len(rows_of(table, sale(shop(100_000, 1), shop(1, 2_000)))) == 2_001
    assert rows_of(table, sale(shop(100_000, 2_000))) == ["too_large"]
    values = pa.array([sale(shop(100_000, 2_000)), sale(shop(100_000, 1), shop(1, 2_000))])
    assert uncertain_records(values, None, table.rules()) == [0]


@pytest.mark.parametrize("table", [ITEMS, TABLES["array"], TABLES["kept"]], ids=["keyed", "array", "kept"])
def test_ordinary_records_take_the_fast_path(table: StreamTable) -> None:
    record = sale(NORTH | {"extra": {"a": "x"}}, SOUTH, None)
    if table.rows_from == ("[]", "items"):
        record = json.dumps([*NORTH["orders"], order(3, {"sku": "c"})]).encode()
    records = pa.array([record, record])
    assert uncertain_records(records, None, table.rules()) == []
    rows = decode_values(records, None, table.rules(), NATIVE).verdicts.to_pylist()
    assert [[row["_index"] for row in rows_of_record] for rows_of_record in rows] == [[0, 1, 2, 3]] * 2


_scalars = st.none() | st.booleans() | st.integers(-1, 9) | st.sampled_from(["", "a", "-", "7", "x", "{", "null", 1.5])
_items = st.fixed_dictionaries({"sku": st.sampled_from(["a", "b"])}, optional={"gone": _scalars, "extra": _scalars})
_item_lists = st.lists(_items, max_size=3) | st.lists(_items | _scalars, max_size=3) | _scalars
_orders = st.fixed_dictionaries(
    {"id": st.integers(0, 9)}, optional={"items": _item_lists, "price": _scalars, "number": _scalars}
) | st.fixed_dictionaries({}, optional={"id": _scalars, "items": _item_lists, "extra": _scalars})
_order_lists = st.lists(_orders, max_size=3) | st.lists(_orders | _scalars, max_size=3) | _scalars
_infos = st.fixed_dictionaries({}, optional={"name": st.sampled_from(["n", "-"]) | _scalars}) | _scalars
_shops = st.fixed_dictionaries(
    {},
    optional={
        "info": _infos,
        "name": _scalars,
        "orders": _order_lists | _order_lists.map(json.dumps),
        "more": st.fixed_dictionaries({}, optional={"items": _item_lists}) | _scalars,
        "at": st.integers(0, 10**9) | _scalars,
    },
)
_shop_lists = st.lists(_shops, max_size=3) | st.lists(_shops | _scalars | _shops.map(json.dumps), max_size=3)
_sales = st.fixed_dictionaries(
    {"sender": st.sampled_from(["a", "b"])},
    optional={"shops": _shop_lists | _scalars, "info": st.fixed_dictionaries({"shops": _shop_lists}) | _scalars},
)
_records = (_sales | _order_lists).map(lambda content: json.dumps(content).encode())
REPLACEMENTS = [b"", b"}", b"NaN", b'"id": 1, ', b'"items": [], ', b"1e999999999", b"\xff"]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@given(records=st.lists(_records | spoiled(_records, REPLACEMENTS), max_size=5))
def test_the_fast_path_gives_the_rows_of_the_strict_path(table: StreamTable, records: list[bytes]) -> None:
    is_packed = isinstance(table.format, Compressed)
    values = [compress(record, "gzip") if is_packed else record for record in records]
    times = [[None, 0, 2 * 10**15][index % 3] for index in range(len(records))]
    decode_twice(values, table.rules(), broker_times=times)


def test_of_two_wrong_values_on_the_way_to_the_rows_the_outer_one_is_named() -> None:
    value = sale({**NORTH, "orders": [{"id": 1, "items": 7}, 8]}, SOUTH)
    decoded = rows_twice([value], ITEMS.rules())
    assert [row["_detail"] for row in decoded[0]] == ["'shops[].orders[]' is a number '8', expected an object"]
