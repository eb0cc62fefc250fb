"""JSON in a field of CSV, Logfmt or Text: fields within it are read by their paths, and have JSON's own kinds."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Csv, Deletes, FieldIs, Logfmt, StreamTable, Text, Time, UnmappedFields
from lakehouse.declaration.inference.proposal import propose
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.staged import DELETED
from lakehouse_tests.helpers.decoding.both_paths import decode_twice

CSV = Csv(columns=["id", "payload"], delimiter=";", quotes=False)
COLUMNS = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("count", "BIGINT", "Count.", source=("payload", "count")),
    Column("price", "DECIMAL(9,2)", "Price.", source=("payload", "paid", "price")),
    Column("at", "TIMESTAMP", "Time.", source=("payload", "at"), written=Time(epoch="milliseconds")),
    Column("tags", "ARRAY<STRING>", "Tags.", source=("payload", "tags")),
]


def table(*columns: Column, form: Format = CSV, **options: Any) -> StreamTable:
    return StreamTable("events", "events", "Events.", columns or COLUMNS, ["id"], format=form, **options)


def row(payload: str) -> bytes:
    return f"7;{payload}".encode()


def test_fields_within_a_field_of_csv_are_read_by_their_paths() -> None:
    payload = {"count": 5, "paid": {"price": 2.5}, "at": 1_769_854_530_500, "tags": ["a", "b;"]}
    quoted = Csv(columns=["id", "payload"])
    value = f'7,"{json.dumps(payload).replace(chr(34), chr(34) * 2)}"\r\n'.encode()
    decoded = table(form=quoted).decode(value)
    at = datetime(2026, 1, 31, 10, 15, 30, 500_000, tzinfo=UTC)
    assert {**decoded, "price": str(decoded["price"])} == {
        "id": 7, "count": 5, "price": "2.50", "at": at, "tags": ["a", "b;"],
    }  # fmt: skip


def test_a_whole_field_of_csv_may_be_a_struct_and_an_empty_one_is_null() -> None:
    whole = table(COLUMNS[0], Column("payload", "STRUCT<count: BIGINT>", "All of it."))
    assert whole.decode(row('{"count": 5}')) == {"id": 7, "payload": {"count": 5}}
    assert whole.decode(row("")) == {"id": 7, "payload": None}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ('{"count": "5"}', "wrong_type"),
        ('{"count": 5', "truncated"),
        ("five", "wrong_type"),
        ("[5]", "wrong_type"),
        ('{"count": 5, "count": 6}', "duplicate_name"),
        ('{"count": NaN}', "not_finite"),
    ],
)
def test_a_text_that_is_not_such_an_object_rejects_the_record(payload: str, reason: str) -> None:
    with pytest.raises(Rejection) as caught:
        table().decode(row(payload))
    assert caught.value.reason == reason


def test_logfmt_and_text_are_opened_too() -> None:
    columns = [COLUMNS[0], COLUMNS[1]]
    assert table(*columns, form=Logfmt()).decode(rb'id=7 payload="{\"count\": 5}"') == {"id": 7, "count": 5}
    columns = [Column("id", "BIGINT", "", source=("value", "id"), required=True)]
    assert table(*columns, form=Text()).decode(b' {"id": 7}') == {"id": 7}


def test_a_field_within_decides_which_records_belong_to_the_table_and_which_delete() -> None:
    deleting = table(
        *COLUMNS[:2],
        where=FieldIs(("payload", "kind"), ["order"]),
        deletes=Deletes(when=FieldIs(("payload", "gone"), [True])),
    )
    payloads = [{"kind": "order"}, {"kind": "other"}, {"kind": "order", "gone": True}]
    decoded = decode_twice([row(json.dumps(payload)) for payload in payloads], deleting.rules())
    assert decoded.verdicts.field("_reason").to_pylist() == [None, "filtered", None]
    assert decoded.verdicts.field(DELETED).to_pylist() == [False, False, True]


def test_what_no_column_reads_of_the_text_is_kept_as_unmapped() -> None:
    keeping = table(*COLUMNS[:2], Column("rest", "STRING", "Others.", source=UnmappedFields()))
    assert keeping.decode(row('{"count": 5, "more": [1]}'))["rest"] == '{"payload":{"more":[1]}}'


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**19) | st.floats(-9, 9) | st.text("ab1 ", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["count", "paid", "price", "at", "tags"]), inner, max_size=4)
        | inner.map(json.dumps)
    ),
    max_leaves=6,
)


@given(st.lists(_VALUES, max_size=5), st.integers(0, 40))
def test_the_fast_path_and_the_strict_rules_read_the_same(payloads: list[Any], length: int) -> None:
    texts = [json.dumps(payload) for payload in payloads]
    values = [row(text) for text in texts] + [row(text[:length]) for text in texts]
    decode_twice(values, table().rules())


def test_new_table_opens_json_in_csv_and_its_proposal_reads_the_records() -> None:
    values = [row(json.dumps({"count": number, "paid": {"price": 1.5}})) for number in range(3)]
    proposal = propose(values, CSV)
    assert [(column.field.place.names, column.type) for column in proposal.columns] == [
        (("id",), "BIGINT"),
        (("payload", "count"), "BIGINT"),
        (("payload", "paid", "price"), "DOUBLE"),
    ]
    proposed = StreamTable("t", "t", "", proposal.columns, proposal.key, format=CSV)
    assert [list(proposed.decode(value).values()) for value in values] == [[7, n, 1.5] for n in range(3)]


@pytest.mark.parametrize(
    "column",
    [
        Column("whole", "BOOLEAN", "As a text.", source="payload", null_values=["5"]),
        Column("whole", "BIGINT", "As a text.", source="payload"),
        Column("whole", "STRING", "As a text.", source="payload"),
        Column("whole", "STRING", "As JSON.", source="payload", written="json"),
        Column("whole", "ARRAY<BIGINT>", "As JSON.", source="payload"),
    ],
)
def test_a_column_of_the_whole_text_is_the_same_whether_another_column_leads_through_it(column: Column) -> None:
    numbers = Column("numbers", "ARRAY<BIGINT>", "All of it.", source="payload")
    payloads = ("[1]", "[]", '{"count": 5}', "null", "5", "true", "", "{", '[{"count": 5}]')
    for other_columns in ([COLUMNS[1]], [numbers], [COLUMNS[1], numbers]):
        decode_twice([row(payload) for payload in payloads], table(COLUMNS[0], *other_columns, column).rules())
