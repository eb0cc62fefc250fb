"""Keys that are JSON: columns read their fields as strictly as those of values, on both paths."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.declaration import Column, Deletes, RecordKey, Rejection, StreamTable, Tombstone
from lakehouse_tests.helpers.decoding.both_paths import rows_of_keys

COLUMNS = [
    Column("id", "BIGINT", "Which.", source=RecordKey("json", "id"), required=True),
    Column("region", "STRING", "Where.", source=RecordKey("json", ("home", "region"))),
    Column("share", "DOUBLE", "How much.", source=RecordKey("json", "share")),
    Column("n", "INT", "A field."),
]
TABLE = StreamTable("t", "t", "T.", COLUMNS, ["id"], deletes=Deletes(when=Tombstone()))
WHOLE = StreamTable("t", "t", "T.", [Column("k", "STRING", "Key.", source=RecordKey("json"), required=True)], ["k"])


def test_columns_read_fields_of_the_key() -> None:
    keys = [b'{"id":7,"home":{"region":"north"},"share":0.5}', b' {"id": 8, "home": null, "more": [1]}']
    rows = rows_of_keys(keys, TABLE)
    assert [(row["id"], row["region"], row["share"], row["n"]) for row in rows] == [
        (7, "north", 0.5, 1),
        (8, None, None, 1),
    ]
    assert TABLE.decode(b'{"n":2}', key=keys[0]) == {"id": 7, "region": "north", "share": 0.5, "n": 2}


def test_a_tombstone_deletes_by_a_field_of_the_key() -> None:
    assert TABLE.decode(None, key=b'{"id":7,"home":{"region":"north"}}')["id"] == 7


def test_a_key_may_be_one_value() -> None:
    assert [row["k"] for row in rows_of_keys([b'"a\\n"', '"é"'.encode()], WHOLE)] == ["a\n", "é"]


@pytest.mark.parametrize(
    ("key", "reason", "detail"),
    [
        (None, "missing_field", "'id in the key of the record' is required"),
        (b"{}", "missing_field", "'id in the key of the record' is required"),
        (b"null", "missing_field", "'id in the key of the record' is required"),
        (b"7", "wrong_type", "'id in the key of the record': the key is a number '7', expected an object"),
        (b'{"id":"7"}', "wrong_type", "'id in the key of the record' is text '7', expected BIGINT"),
        (b'{"id":7', "truncated", "'id in the key of the record': Expecting ',' delimiter at character 7"),
        (b'{"id":7,"id":8}', "duplicate_name", "'id in the key of the record': 'id' occurs more than once"),
        (b'{"id":NaN}', "not_finite", "'id in the key of the record': NaN is not a number in JSON"),
        (b"\xff", "invalid_utf8", "'id in the key of the record': the byte at place 0 is not UTF-8"),
        (b"seven", "invalid_json", "'id in the key of the record': Expecting value at character 0"),
        (b'{"id":7,"home":[]}', "wrong_type", "'home.region in the key of the record': 'key.home' is an array of 0"),
    ],
)
def test_a_key_in_another_form_rejects_the_record(key: bytes | None, reason: str, detail: str) -> None:
    (row,) = rows_of_keys([key], TABLE)
    assert row["_reason"] == reason
    assert row["_detail"].startswith(detail)
    with pytest.raises(Rejection):
        TABLE.decode(b'{"n":1}', key=key)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "home", "region"]), inner),
    max_leaves=5,
)
KEYS = st.dictionaries(st.sampled_from(["id", "home", "share"]), JSON_VALUES).map(lambda key: json.dumps(key).encode())


@given(st.lists(KEYS | st.binary(max_size=6) | JSON_VALUES.map(lambda key: json.dumps(key).encode()), max_size=4))
@example([b'{"id":1,"share":1e400}', b'{"id":1,"share":0e999999999999}', b'{"id":1.0,"share":-0.0}'])
@example([b'{"id":9007199254740993,"share":0.1000000000000000055511151231257827}'])
@example([b'"\\ud800"'])
def test_any_key_is_judged_alike_on_both_paths(keys: list[bytes]) -> None:
    rows_of_keys(keys, TABLE)
    rows_of_keys(keys, WHOLE)


def test_values_in_keys_may_have_other_forms() -> None:
    columns = [
        Column("id", "BIGINT", "Which.", source=RecordKey("json", "id"), required=True, written="text_or_number"),
        Column("whole", "STRING", "All.", source=RecordKey("json"), written="json"),
    ]
    table = StreamTable("t", "t", "T.", columns, ["id"])
    rows = rows_of_keys([b'{"id":"7"}', b'{"id":8,"x":[1.50]}'], table)
    assert [(row["id"], row["whole"]) for row in rows] == [(7, '{"id":"7"}'), (8, '{"id":8,"x":[1.50]}')]


def test_a_value_in_a_key_may_mean_null() -> None:
    columns = [
        Column("id", "BIGINT", "Which.", source=RecordKey("json", "id"), null_values=("0", "-")),
        Column("n", "INT", "A field."),
    ]
    table = StreamTable("t", "t", "T.", columns, [])
    keys: list[bytes | None] = [b'{"id":0}', b'{"id":"-"}', b'{"id":7}']
    assert [row["id"] for row in rows_of_keys(keys, table)] == [None, None, 7]
