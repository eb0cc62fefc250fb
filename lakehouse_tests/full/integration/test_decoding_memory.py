"""A search for the records that take most memory to decode, within what a worker may take."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from lakehouse_tests.helpers.decoding_memory import MOST, peak_of
from lakehouse_tests.helpers.large_records import Case, avro, flat, nested

INNER = st.sampled_from(["0", "1234.5", '"ab"', "{}", '{"":0}', "[]", "[[]]", "null", "[" * 40 + "]" * 40, '{"a":[]}'])
TYPES = st.sampled_from(
    ["ARRAY<INT>", "ARRAY<DECIMAL(38,2)>", "ARRAY<STRUCT<a: ARRAY<INT>, b: STRING>>", "ARRAY<ARRAY<ARRAY<STRING>>>"]
)
SIZES = st.sampled_from([300, 10_000, 300_000, 1_000_000, 8_000_000])
CASES = st.one_of(
    st.builds(flat, INNER, SIZES),
    st.builds(nested, TYPES, INNER, SIZES, st.integers(1, 12)),
    st.builds(avro, st.integers(100, 700_000), st.just(1_000_000)),
)


@pytest.mark.timeout(3600)
def test_no_records_that_a_search_finds_take_more(tmp_path: Path) -> None:
    @settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), database=None)
    @given(CASES)
    def search(case: Case) -> None:
        table, records, schemas = case
        peak = peak_of(tmp_path, table, records, schemas)
        target(peak)
        assert peak < MOST

    search()
