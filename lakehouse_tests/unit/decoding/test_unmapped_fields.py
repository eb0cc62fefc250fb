"""Unmapped fields are counted like a simple count of each record."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, RecordKey
from lakehouse.decoding.unmapped_fields import count_unmapped

FIELDS = [
    Column("id", "BIGINT", "").field,
    Column("city", "STRING", "", source=("customer", "address", "city")).field,
    Column("zip", "STRING", "", source=("customer", "address", "zip")).field,
    Column("email", "STRING", "", source=("customer", "email")).field,
    Column("sender", "STRING", "", source=RecordKey()).field,
]
NAMES = st.sampled_from(["id", "customer", "address", "city", "zip", "email", "sender", "a.b", *"abcdefghijkl"])
OBJECTS = st.recursive(
    st.none() | st.integers(0, 1), lambda inner: st.dictionaries(NAMES, inner, max_size=8), max_leaves=20
)
RECORDS = st.lists(st.dictionaries(NAMES, OBJECTS, max_size=8), max_size=4)


def quoted(name: str) -> str:
    return f"`{name}`" if "." in name else name


def count_simply(objects: list[dict[str, Any]]) -> Counter[str]:
    counts = Counter[str]()
    for obj in objects:
        counts.update(quoted(name) for name in obj if name not in ("id", "customer"))
        customer = obj.get("customer")
        if isinstance(customer, dict):
            counts.update(f"customer.{quoted(name)}" for name in customer if name not in ("address", "email"))
            address = customer.get("address")
            if isinstance(address, dict):
                counts.update(f"customer.address.{quoted(name)}" for name in address if name not in ("city", "zip"))
    return counts


@given(RECORDS)
def test_unmapped_fields_are_counted_in_every_object_that_columns_read(
    objects: list[dict[str, Any]],
) -> None:
    assert count_unmapped(objects, FIELDS) == count_simply(objects)


def test_a_reported_name_has_a_maximum_length_and_is_valid_utf8() -> None:
    assert count_unmapped([{"n" * 1_000: 1, "\ud800": 1}], FIELDS) == {"n" * 100 + "…": 1, "?": 1}


def test_all_fields_are_reported_if_no_column_reads_a_field() -> None:
    assert count_unmapped([{"a": 1}, {"b": None}, {"a": {}}], FIELDS[-1:]) == {"a": 2, "b": 1}


def test_of_very_many_names_those_of_most_records_are_reported() -> None:
    objects = [{f"n{number}": 1, "often": 1} for number in range(3_000)]
    counts = count_unmapped(objects, FIELDS)
    assert (len(counts), counts["often"]) == (1_000, 3_000)
