"""JSON in JSON: a text on the way to a field is opened, and the field is read by its path like any other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, StreamTable
from lakehouse.decoding.deletes import DeleteRule
from lakehouse.decoding.formats import Json
from lakehouse.decoding.memory import MAX_RECORD_MEMORY
from lakehouse.decoding.one_record import Verdict
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.staged import EXPLICIT_NULL
from lakehouse_tests.helpers.decoding.both_paths import decode_twice, rows_twice
from lakehouse_tests.helpers.decoding.native import judge

NUMBER = Column("number", "INT", "A number in a text.", source=("payload", "order", "number"))
OBJECT_EXPECTED = "expected an object"
DEEP_NUMBER = Column("deep", "INT", "A number in a text in a text.", source=("payload", "inner", "deep"))


def rules_of(*columns: Column) -> Rules:
    return Rules(tuple(column.field for column in columns), None).with_parser(Json().parser())


def judged(content: Any, *columns: Column) -> Verdict:
    return judge(json.dumps(content).encode(), None, rules_of(*columns))


def test_a_field_within_a_text_is_read_by_its_path():
    payload = json.dumps({"order": {"number": 7}})
    assert judged({"payload": payload}, NUMBER).row == {"number": 7}


def test_a_text_within_a_text_is_opened():
    content = {"payload": json.dumps({"order": {"number": 1}, "inner": json.dumps({"deep": 5})})}
    assert judged(content, NUMBER, DEEP_NUMBER).row == {"number": 1, "deep": 5}


def test_a_number_within_a_text_keeps_every_digit():
    column = Column("amount", "DECIMAL(38,2)", "An amount.", source=("payload", "amount"))
    content = {"payload": '{"amount": 123456789012345678901234567890.25}'}
    assert str(judged(content, column).row["amount"]) == "123456789012345678901234567890.25"


def test_another_column_reads_the_text_as_it_was_written():
    text = '{"order":  {"number": 7}}'
    assert judged({"payload": text}, NUMBER, Column("payload", "STRING", "All of it.")).row == {
        "number": 7,
        "payload": text,
    }


@pytest.mark.parametrize("text", ["null", " null "])
def test_a_text_null_is_null(text):
    assert judged({"payload": text}, NUMBER).row == {"number": None}


@pytest.mark.parametrize("text", ["null", "[1]", '{"x": 2}', "{bad"])
def test_a_column_of_the_text_is_the_same_whether_another_column_leads_through_it_or_not(text):
    raw = Column("raw", "STRING", "The text.")
    inner = Column("x", "BIGINT", "A field.", source="x", formerly=("raw", "x"))
    rules, content = rules_of(raw, inner), {"raw": text, "x": 1}
    (row,) = rows_twice([json.dumps(content).encode()], rules)
    assert (row["raw"], row["x"]) == (text, 1)
    whole = Column("d", "STRING", "All.", written="json")
    led = Column("x", "STRING", "A field.", source=("d", "i", "x"), null_values=["2"])
    alone, both = (judged({"d": {"i": text}}, *columns) for columns in ((whole,), (whole, led)))
    assert both.reason or both.row["d"] == alone.row["d"]


def test_null_values_apply_to_a_text_that_is_opened_for_another_column():
    raw = Column("raw", "STRING", "The text.", null_values=["{}"])
    assert judged({"raw": "{}"}, raw, Column("x", "INT", "A field.", source=("raw", "x"))).row == {
        "raw": None,
        "x": None,
    }


def test_a_text_that_holds_an_array_is_read_by_a_column_of_that_type():
    column = Column("tags", "ARRAY<STRING>", "Tags.", source=("payload", "tags"))
    assert judged({"payload": json.dumps({"tags": '["a", "b"]'})}, column).row == {"tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("text", "reason", "detail"),
    [
        ("hello", "wrong_type", f"'payload' is text 'hello', {OBJECT_EXPECTED}"),
        ("", "wrong_type", f"'payload' is text '', {OBJECT_EXPECTED}"),
        ("nullify", "wrong_type", f"'payload' is text 'nullify', {OBJECT_EXPECTED}"),
        ('{"order": {"num', "truncated", "the text in 'payload': Unterminated string starting at at character 11"),
        ('{"order": 1, "order": 2}', "duplicate_name", "the text in 'payload': 'order' occurs more than once"),
        ('{"order": NaN}', "not_finite", "the text in 'payload': NaN is not a number in JSON"),
        ("7", "wrong_type", f"'payload' is text '7', {OBJECT_EXPECTED}"),
        ("[1]", "wrong_type", "'payload' is an array of 1, expected an object"),
        ('{"order": "7"}', "wrong_type", f"'payload.order' is text '7', {OBJECT_EXPECTED}"),
        ('{"order": {"number": "7"}}', "wrong_type", "'payload.order.number' is text '7', expected INT"),
        ("[" * 100_000, "invalid_json", "the text in 'payload': nested too deeply"),
    ],
)
def test_a_text_that_is_no_object_rejects_the_record(text, reason, detail):
    verdict = judged({"payload": text}, NUMBER)
    assert (verdict.reason, verdict.detail) == (reason, detail)


def test_null_values_apply_to_a_text_that_is_not_opened():
    column = Column("tags", "ARRAY<STRING>", "Tags.", null_values=[""])
    assert judged({"tags": ""}, column).row == {"tags": None}


def test_nan_within_a_text_is_null_if_it_is_null_elsewhere():
    rules = Rules((NUMBER.field,), None).with_parser(Json(not_finite="null").parser())
    assert judge(b'{"payload": "{\\"order\\": {\\"number\\": NaN}}"}', None, rules).row == {"number": None}


def test_a_record_is_too_large_if_its_opened_texts_are():
    payload = f'{{"order": [{"[]," * (MAX_RECORD_MEMORY // 60)}[]]}}'
    assert judge(json.dumps({"payload": payload}).encode(), None, rules_of(NUMBER)).reason == "too_large"


def test_a_text_that_no_column_leads_through_stays_closed():
    assert judged({"payload": "{not JSON", "number": 3}, Column("number", "INT", "A number.")).row == {"number": 3}


def test_a_field_within_a_text_decides_about_a_delete():
    rules = Rules((NUMBER.field,), None, deletes=DeleteRule(("payload", "op"), ("d",), ("number",)))
    value = json.dumps({"payload": json.dumps({"op": "d", "order": {"number": 7}})}).encode()
    verdict = judge(value, None, rules.with_parser(Json().parser()))
    assert (verdict.row, verdict.deletes) == ({"number": 7}, True)


def test_unmapped_fields_within_a_text_are_counted():
    value = json.dumps({"payload": json.dumps({"order": {"number": 1, "other": 2}})}).encode()
    assert decode_twice([value], rules_of(NUMBER)).unmapped_counts == {"payload.order.other": 1}


def test_a_null_within_a_text_is_as_explicit_as_any_other():
    source = ("payload", "note")
    rules = rules_of(Column("note", "STRING", "A note.", source=source, keep=True, null_erases=True))
    payloads = ['{"note": null}', {"note": None}, "null", None, "{}", '{"note": "a"}', '{"note": 1.5}']
    verdicts = decode_twice([json.dumps({"payload": payload}).encode() for payload in payloads], rules).verdicts
    assert verdicts.field(f"{EXPLICIT_NULL}note").to_pylist() == [True, True, True, True, False, False, False]


_inner = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.dictionaries(st.sampled_from(["order", "number", "inner", "deep"]), inner, max_size=3)
        | st.lists(inner, max_size=2)
        | inner.map(json.dumps)
    ),
    max_leaves=6,
)


@given(payloads=st.lists(st.fixed_dictionaries({}, optional={"payload": _inner}), min_size=1, max_size=5))
def test_both_paths_give_the_same_verdicts(payloads):
    decode_twice([json.dumps(payload).encode() for payload in payloads], rules_of(NUMBER, DEEP_NUMBER))


def test_unmapped_fields_within_texts_in_arrays_and_rows_are_counted():
    item = json.dumps({"a": 1, "other": 2})
    array = Column("items", "ARRAY<STRUCT<a: INT>>", "Items.")
    value = json.dumps({"items": f"[{item}]"}).encode()
    assert decode_twice([value], rules_of(array)).unmapped_counts == {"items[].other": 1}
    table = StreamTable("items", "items", "Items.", [Column("a", "INT", "A.")], [], rows_from="items")
    value = json.dumps({"items": [item]}).encode()
    assert decode_twice([value], table.rules()).unmapped_counts == {"items[].other": 1}
