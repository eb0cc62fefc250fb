"""Few rows and many are planned otherwise, and give the same tables: tests of a few rows with the plans of many."""

import os
import subprocess
import sys

import pytest

from lakehouse_tests.conftest import FEW_ROWS
from lakehouse_tests.helpers.places import ROOT

SAME_TESTS = ("test_newest_wins.py", "test_other_shapes.py", "test_derived.py", "test_another_row.py")


@pytest.mark.timeout(600)
def test_the_plans_of_large_batches_give_the_same_rows_and_counts() -> None:
    tests = [str(ROOT / "lakehouse_tests" / "real" / name) for name in SAME_TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, env={**os.environ, FEW_ROWS: "-1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
