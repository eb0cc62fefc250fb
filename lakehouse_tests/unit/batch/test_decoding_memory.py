"""What records become while they are decoded fits into a worker, whatever they hold, and rejects what cannot fit."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.declaration.framing import parser_of
from lakehouse.declaration.quick import decode_plain
from lakehouse.declaration.verdicts import Rules, decode_slices
from lakehouse_tests.helpers.decoding_memory import MOST, peak_of
from lakehouse_tests.helpers.large_records import CASES, Case, avro, flat, nested

pytestmark = pytest.mark.invariant(8)


def reasons(case: Case, path: object) -> list[str | None]:
    table, records, schemas = case
    rules = Rules(table.fields, None, parser_of(table.format, schemas))
    slices = decode_slices(pa.array(records, pa.binary()), None, rules, path)  # type: ignore[arg-type]
    return [row["_reason"] for some in slices for row in some.verdicts.to_pylist()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CASES)
def test_a_worker_takes_little_memory_whatever_records_hold(name: str, tmp_path: Path) -> None:
    table, records, schemas = CASES[name]()
    assert peak_of(tmp_path, table, records, schemas) < MOST


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (avro(980_000, 1), "too_large"),
        (avro(100_000, 1), None),
        (flat("[[]]", 8_000_000), "too_large"),
        (flat('"[[[[[[[["', 8_000_000), None),
        (nested("ARRAY<DECIMAL(38,0)>", "1", 400_000, columns=20), "too_large"),
        (nested("ARRAY<DECIMAL(38,0)>", "1", 4_000, columns=20), None),
    ],
    ids=["Avro", "less Avro", "lists", "texts", "columns", "small columns"],
)
def test_only_a_record_that_fits_into_no_worker_is_rejected(case: Case, expected: str | None) -> None:
    table, (record, *_), schemas = case
    for path in (decode_plain, None):
        assert reasons((table, [record], schemas), path) == [expected]
