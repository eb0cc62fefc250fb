"""Records fit into the memory of a worker while they are decoded; ``full`` has more cases, and a search."""

from pathlib import Path

import pytest

from lakehouse_tests.helpers.decoding_memory import MAX_ADDED_BYTES, peak_of
from lakehouse_tests.helpers.tables.large_records import CASES, Case, as_json, avro, nested, reasons_of_first

LONG_TEXT = f'"{"x" * 100_000}"'
pytestmark = pytest.mark.invariant("8.11")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["Avro, many records", "JSON of lists in lists", "compressed CSV"])
def test_decoding_hostile_records_needs_little_memory(name: str, tmp_path: Path) -> None:
    table, records, schemas = CASES[name]()
    assert peak_of(tmp_path, table, records, schemas) < MAX_ADDED_BYTES


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (avro(100_000, 1), None),
        (nested("ARRAY<DECIMAL(38,0)>", "1", 400_000, columns=20), "too_large"),
        (nested("ARRAY<DECIMAL(38,0)>", "1", 4_000, columns=20), None),
        (as_json(LONG_TEXT, 5_000_000, columns=20), "too_large"),
        (as_json(LONG_TEXT, 500_000, columns=20), None),
    ],
    ids=["Avro", "columns", "small columns", "JSON texts", "small JSON texts"],
)
def test_only_a_record_that_fits_into_no_worker_is_rejected(case: Case, expected: str | None) -> None:
    assert reasons_of_first(case) == {expected}
