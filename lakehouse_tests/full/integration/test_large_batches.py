"""Few rows and many are planned otherwise, and give the same tables: tests of a few rows with the plans of many."""

import os
import subprocess
import sys

import pytest

from lakehouse_tests.conftest import PLANS
from lakehouse_tests.helpers.places import ROOT

SAME_TESTS = (
    "test_newest_wins.py",
    "test_other_shapes.py",
    "test_derived.py",
    "test_another_row.py",
    "test_text_keys.py",
)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("limit", ["FEW_ROWS", "VERY_FEW_ROWS", ""], ids=["many", "some", "few, by Spark"])
def test_the_plans_of_larger_batches_give_the_same_rows_and_counts(limit: str) -> None:
    tests = [str(ROOT / "lakehouse_tests" / "real" / name) for name in SAME_TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, env={**os.environ, PLANS: limit}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
