"""Fields that no column takes, compared with a count made one by one."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.declaration import Column, RecordKey
from lakehouse.decoding.unmapped_fields import others_in

FIELDS = [
    Column("id", "BIGINT", "").field,
    Column("city", "STRING", "", source=("customer", "address", "city")).field,
    Column("zip", "STRING", "", source=("customer", "address", "zip")).field,
    Column("email", "STRING", "", source=("customer", "email")).field,
    Column("said", "STRING", "", source=RecordKey()).field,
]
NAMES = st.sampled_from(["id", "customer", "address", "city", "zip", "email", "said", "a.b", *"abcdefghijkl"])
OBJECTS = st.recursive(
    st.none() | st.integers(0, 1), lambda inner: st.dictionaries(NAMES, inner, max_size=8), max_leaves=20
)
RECORDS = st.lists(st.dictionaries(NAMES, OBJECTS, max_size=8), max_size=4)


def quoted(name: str) -> str:
    return f"`{name}`" if "." in name else name


def one_by_one(objects: list[dict[str, Any]]) -> Counter[str]:
    found = Counter[str]()
    for each in objects:
        found.update(quoted(name) for name in each if name not in ("id", "customer"))
        customer = each.get("customer")
        if isinstance(customer, dict):
            found.update(f"customer.{quoted(name)}" for name in customer if name not in ("address", "email"))
            address = customer.get("address")
            if isinstance(address, dict):
                found.update(f"customer.address.{quoted(name)}" for name in address if name not in ("city", "zip"))
    return found


@given(RECORDS)
def test_fields_that_no_column_takes_are_counted_wherever_columns_take_others(
    objects: list[dict[str, Any]],
) -> None:
    assert others_in(objects, FIELDS) == one_by_one(objects)


def test_a_name_is_told_up_to_a_length_and_as_text_that_can_be_written() -> None:
    assert others_in([{"n" * 1_000: 1, "\ud800": 1}], FIELDS) == {"n" * 100 + "…": 1, "?": 1}


def test_a_table_of_which_no_column_takes_a_field_names_them_all() -> None:
    assert others_in([{"a": 1}, {"b": None}, {"a": {}}], FIELDS[-1:]) == {"a": 2, "b": 1}


def test_of_very_many_names_those_of_most_records_are_told() -> None:
    objects = [{f"n{number}": 1, "often": 1} for number in range(3_000)]
    found = others_in(objects, FIELDS)
    assert (len(found), found["often"]) == (1_000, 3_000)
