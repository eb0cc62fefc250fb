"""The sources of a MERGE that Spark may broadcast."""

import pytest

from lakehouse.ingest.counts import Counts, Touched

pytestmark = pytest.mark.invariant("7.2")


@pytest.mark.parametrize(
    ("rows", "text", "hint"), [(50_000, 1_000, "broadcast"), (50_001, 0, "merge"), (2_000, 2_000_000_000, "merge")]
)
def test_few_rows_with_little_text_are_broadcast(rows: int, text: int, hint: str) -> None:
    assert Counts(rows, 0, 0, 0, touched=Touched(text=text)).join == hint
