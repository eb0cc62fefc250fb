"""The proposed key: the ids that identify records, or none, with a warning."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Rejection, StreamTable
from lakehouse.declaration.inference.proposal import propose
from lakehouse_tests.helpers.proposals import infer, types


def test_the_key_is_the_id_or_the_fewest_ids_that_identify_records() -> None:
    assert infer({"a": "x", "order_id": 1}, {"a": "y", "order_id": 2}).key == ("order_id",)
    assert infer({"customer_id": 1, "id": 5}, {"customer_id": 2, "id": 6}).key == ("id",)
    assert infer({"id": 1, "line_id": 1}, {"id": 1, "line_id": 2}, {"id": 2, "line_id": 1}).key == ("id", "line_id")
    updates = infer({"id": 1, "v": None}, {"id": 1, "v": True}, {"id": 2, "v": True})
    assert updates.key == ("id",)
    assert any("treated as updates" in warning for warning in updates.warnings)


@pytest.mark.parametrize(
    "columns",
    [
        {"price": [9.5, 10.5, 11.5]},
        {"price": [9, 10, 11]},
        {"at": ["01.02.2026 10:00", "01.02.2026 10:01", "01.02.2026 10:02"]},
        {"time_key": ["2026-01-01 10:00 h", "2026-01-01 10:01 h", "2026-01-01 10:02 h"]},
        {"at": ["2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z", "2026-01-01T10:02:00Z"]},
        {"txId": [570, 571, 572]},
        {"transaction_id": ["a", "b", "c"]},
        {"trace_id": ["a", "b", "c"]},
        {"id": [1.5, 2.5, 3.5]},
        {"name": ["a", "b", "c"]},
        {"order_id": [1, 2, 3], "customer_id": [4, 5, 6]},
        {"order_id": [1, 1, 2], "status": ["new", "paid", "new"]},
        {"order_id": [1, 1, 2], "price": [1.5, 2.5, 3.5]},
        {"id": [True, False, True]},
    ],
)
def test_columns_that_may_not_be_ids_are_not_the_key(columns: dict[str, list[Any]]) -> None:
    proposal = infer(*(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)))
    assert proposal.key == ()
    assert any("the table is a log table, in which each record is a row" in warning for warning in proposal.warnings)


def test_records_without_fields_of_others_of_the_same_id_are_not_updates() -> None:
    assert infer({"id": 1, "a": 1}, {"id": 1, "a": None}, {"id": 2, "a": 1}).key == ("id",)
    assert infer({"id": 1, "a": 1, "b": 1}, {"id": 1, "b": 2}, {"id": 2, "a": 1, "b": 1}).key == ()


ORDER = {"id": 1, "total": 5, "customer": "Ann"}
REFUND = {"id": 1, "reason": "late"}


def test_an_outer_field_that_all_records_have_names_their_types_before_an_inner_one() -> None:
    one = {"id": 1, "value": {"elementType": "A", "a": 1}, "valueType": "PROCESS"}
    two = {"id": 2, "value": {"name": "x"}, "valueType": "VARIABLE"}
    assert any("by 'valueType': 'PROCESS' (1), 'VARIABLE' (1)" in text for text in infer(one, two).warnings)


@pytest.mark.parametrize(
    ("objects", "description"),
    [
        ([ORDER | {"type": "order"}, REFUND | {"type": "refund"}], "by 'type': 'order' (1), 'refund' (1)"),
        (
            [{"id": n, "meta": {"eventType": "ab"[n % 2]}, "ab"[n % 2]: n} for n in range(5)],
            "by 'meta.eventType': 'a' (3), 'b' (2)",
        ),
        (
            [{"id": n, "kind": "ab"[n % 2], "a": None, "b": None} | {"ab"[n % 2]: n} for n in range(5)],
            "by 'kind': 'a' (3), 'b' (2)",
        ),
        ([ORDER, REFUND, REFUND | {"id": 2}], "by their fields: customer, total (1); reason (2)"),
        ([{"id": n, "type": None, "abcde"[n % 5]: n} for n in range(9)], "by their fields: a (2); b (2)"),
        (
            [{"id": 1, **{f"a{n}": n for n in range(6)}}, {"id": 1, "b": 1}],
            "by their fields: a0, a1, a2, a3 and 2 more (1); b (1)",
        ),
    ],
)
def test_records_of_several_types_are_described_and_have_no_key(objects: list[Any], description: str) -> None:
    proposal = infer(*objects)
    assert proposal.key == ()
    assert any(description in warning for warning in proposal.warnings), proposal.warnings


@pytest.mark.parametrize(
    "objects",
    [
        [{"id": 1, "type": "car", "doors": 5}, {"id": 2, "type": "van", "doors": 3}],
        [{"id": 1, "a": 1}, {"id": 2, "b": 1}, {"id": 3, "a": 1, "b": 1}],
        [{"id": 1, "a": 1}, {"id": 2, "b": 1}, {"id": 3}],
        [{"id": 1, "a": 1, "b": None}, {"id": 2, "a": None, "b": 1}],
        [{"id": 1, "net": {"type": "gsm", "cell": 7}}, {"id": 2}],
        [{"id": 1, "net": {"type": "gsm", "cell": 7}}, {"id": 2, "net": {"type": "wifi", "cell": 8}}],
    ],
)
def test_records_that_differ_only_by_missing_values_have_one_type(objects: list[Any]) -> None:
    proposal = infer(*objects)
    assert proposal.key == ("id",)
    assert not any("several types" in warning for warning in proposal.warnings)


SMALL_OBJECTS = st.fixed_dictionaries(
    {"id": st.integers(0, 2)},
    optional={
        name: st.none() | st.sampled_from(["x", 1.5, "2026-01-01", 7]) for name in ("type", "at", "price", "line_id")
    },
)


@given(st.lists(SMALL_OBJECTS, max_size=6))
def test_no_record_overwrites_a_value_of_its_key_with_null(objects: list[dict[str, Any]]) -> None:
    proposal = infer(*objects)
    stored_rows: dict[Any, dict[str, Any]] = {}
    for content in {repr(content): content for content in objects}.values() if proposal.key else ():
        row = stored_rows.setdefault(tuple(content[name] for name in proposal.key), {})
        stored_names = {name for name, value in row.items() if value is not None}
        assert stored_names & {*types(proposal)} <= {*content}
        row.clear()
        row.update(content)


def test_a_time_is_not_in_the_key_if_several_ids_identify_records() -> None:
    lines = [{"order_id": n % 2, "product_id": n // 2, "sold_at": 1_767_225_600_000 + n} for n in range(4)]
    assert infer(*lines).key == ("order_id", "product_id")


def test_an_id_that_repeats_is_in_the_key_with_its_time_and_a_warning() -> None:
    stages = [{"order_id": n % 2, "status": "ab"[n // 2], "updated_at": f"2026-01-01T00:0{n}:00Z"} for n in range(4)]
    proposal = infer(*stages)
    assert proposal.key == ("order_id", "updated_at")
    assert any("order_id repeats. If records with the same one are updates" in warning for warning in proposal.warnings)


def test_without_a_field_that_all_records_have_there_is_no_key() -> None:
    for proposal in (infer({"a": 1}, {"b": 1}), infer(1), propose([])):
        assert proposal.key == ()
    with pytest.raises(Rejection):
        StreamTable("t", "t", "", infer({"id": 1}).columns, ["id"]).decode(b"{}")


@pytest.mark.parametrize("kind", ["\ud800", "paid\x1b[31m", "paid\n", ""])
def test_a_type_that_nobody_can_type_is_not_proposed_as_a_condition(kind: str) -> None:
    def proposed(*kinds: str) -> str:
        proposal = infer(*({"record type": kind, f"x{kinds.index(kind)}": n} for kind in kinds for n in range(2)))
        (text,) = [text for text in proposal.warnings if text.startswith("The records have several types")]
        assert text.isprintable() and text.encode()
        return text

    assert "--where 'record type'=sent to the command" in proposed(kind, "sent")
    assert "write where= with a field or a header" in proposed(kind, f"{kind}\n")
