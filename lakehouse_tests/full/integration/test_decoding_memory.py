"""The memory of a worker that decodes costly records: fixed cases, and a search for the most costly ones."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from lakehouse_tests.helpers.decoding_memory import MAX_ADDED_BYTES, peak_of
from lakehouse_tests.helpers.tables.large_records import CASES, Case, as_json, avro, flat, nested, reasons_of_first

pytestmark = pytest.mark.invariant("8.11")

INNER_VALUES = st.sampled_from(
    ["0", "1234.5", '"ab"', "{}", '{"":0}', "[]", "[[]]", "null", "[" * 40 + "]" * 40, '{"a":[]}']
)
TYPES = st.sampled_from(
    ["ARRAY<INT>", "ARRAY<DECIMAL(38,2)>", "ARRAY<STRUCT<a: ARRAY<INT>, b: STRING>>", "ARRAY<ARRAY<ARRAY<STRING>>>"]
)
SIZES = st.sampled_from([300, 10_000, 300_000, 1_000_000, 8_000_000])
COSTLY_RECORDS = st.one_of(
    st.builds(flat, INNER_VALUES, SIZES),
    st.builds(nested, TYPES, INNER_VALUES, SIZES, st.integers(1, 12)),
    st.builds(as_json, INNER_VALUES, SIZES, st.integers(1, 12)),
    st.builds(avro, st.integers(100, 700_000), st.just(1_000_000)),
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CASES)
def test_decoding_costly_records_stays_within_the_memory_limit(name: str, tmp_path: Path) -> None:
    table, records, schemas = CASES[name]()
    assert peak_of(tmp_path, table, records, schemas) < MAX_ADDED_BYTES


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (avro(980_000, 1), "too_large"),
        (flat("[[]]", 8_000_000), "too_large"),
        (flat('"[[[[[[[["', 8_000_000), None),
    ],
    ids=["Avro", "lists", "texts"],
)
def test_only_a_record_that_fits_into_no_worker_is_rejected(case: Case, expected: str | None) -> None:
    assert reasons_of_first(case) == {expected}


@pytest.mark.timeout(3600)
def test_a_search_finds_no_records_above_the_memory_limit(tmp_path: Path) -> None:
    @settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), database=None)
    @given(COSTLY_RECORDS)
    def search(case: Case) -> None:
        table, records, schemas = case
        peak = peak_of(tmp_path, table, records, schemas)
        target(peak)
        assert peak < MAX_ADDED_BYTES

    search()
