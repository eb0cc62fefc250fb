"""Objects whose names are data, such as labels, become maps, and do not make several types of records."""

from typing import Any

import pytest

from lakehouse_tests.helpers.proposals import infer, types


@pytest.mark.parametrize(
    ("field", "objects", "type_"),
    [
        ("labels", [{"app": "a", "tier": "x"}, {"app": "b", "team": "y"}], "MAP<STRING, STRING>"),
        ("metadata", [{}, {"order_id": "7"}, {}], "MAP<STRING, STRING>"),
        ("userAttributes", [{"age": 3}, {"size": 4.5}], "MAP<STRING, DOUBLE>"),
        ("meters", [{"app.kubernetes.io/name": "a", "node": "b"}], "MAP<STRING, STRING>"),
        ("sold", [{f"{n}": 1, f"{n + 1}": 2} for n in range(3)], "MAP<STRING, BIGINT>"),
        ("prices", [{f"s{n}": 1.5, f"s{n + 5}": 2.5, f"s{n + 9}": 3.5} for n in range(6)], "MAP<STRING, DOUBLE>"),
    ],
)
def test_an_object_with_free_names_is_a_map(field: str, objects: list[dict[str, Any]], type_: str) -> None:
    proposal = infer(*({"id": n, "o": {field: content}} for n, content in enumerate(objects)))
    name = "o_user_attributes" if field == "userAttributes" else f"o_{field}"
    assert types(proposal) == {"id": "BIGINT", name: type_}
    assert proposal.key == ("id",)
    assert any(text.startswith(f"{name}: names that look like data") for text in proposal.warnings)
    in_array = infer(*({"id": n, "o": [{field: content}]} for n, content in enumerate(objects)))
    assert types(in_array)["o"] == f"ARRAY<STRUCT<{field}: {type_}>>"


@pytest.mark.parametrize(
    ("field", "objects"),
    [
        ("labels", [{"app": "a", "tier": "x"}, {"app": "b", "tier": "y"}]),
        ("labels", [{"app": "a"}, {"app": "b", "size": 5}]),
        ("address", [{"street": "a", "city": "b"}, {"street": "c", "city": "d", "state": "e"}]),
        ("data", [{"$date": "a"}, {"@type": "b"}, {"first-name": "c"}]),
        ("payload", [{f"{kind}_{n}": "x" for n in range(4)} for kind in "abcd"]),
    ],
)
def test_an_object_with_the_names_of_fields_becomes_columns(field: str, objects: list[dict[str, Any]]) -> None:
    proposal = infer(*({"id": n, field: content} for n, content in enumerate(objects)))
    assert len(proposal.columns) == 1 + len({name for content in objects for name in content})


def test_free_names_with_values_of_several_types_make_no_types_of_records() -> None:
    records = [{"id": 1, "attributes": {"a": 1, "x": "s"}}, {"id": 2, "attributes": {"b": True}}]
    assert infer(*records).key == ("id",)
    by_other_names = [{"id": record["id"], "content": record["attributes"]} for record in records]
    assert any("several types, by their fields" in text for text in infer(*by_other_names).warnings)


def test_the_line_for_one_name_of_a_map_reads_it() -> None:
    proposal = infer({"id": 1, "labels": {"app": "a"}}, {"id": 2, "labels": {"x-1": "b"}})
    line = 'Column("labels_app", "STRING", doc="", source=("labels", "app"))'
    assert any(line in text for text in proposal.warnings)


def test_the_field_that_divides_records_best_names_their_types() -> None:
    kinds = "xyz" * 4
    events = [{"id": n, "action": "b" if kind != "x" else "a", "kind": kind, kind: n} for n, kind in enumerate(kinds)]
    (text,) = [text for text in infer(*events).warnings if "several types" in text]
    assert "by 'kind': 'x' (4), 'y' (4), 'z' (4)" in text
    assert text.endswith("For a table per type, add for example --where kind=x to the command.")
