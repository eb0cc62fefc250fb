"""Tests that other tests run again in a separate process, with another Spark or with other plans."""

import os
import subprocess
import sys

from lakehouse_tests.helpers.places import ROOT

CONNECT = (
    "real/test_decoding.py",
    "real/test_newest_wins.py",
    "real/test_rejected.py::test_a_record_whose_time_exceeds_a_timestamp_is_rejected_and_stops_no_other",
    "real/test_quoted_words.py",
    "full/integration/test_derived_in_trouble.py"
    "::test_without_change_data_the_rollup_rebuilds_and_the_feed_reconciles_and_warns",
)
ENGINE = (*CONNECT, "full/integration/test_another_row.py", "full/integration/test_deaths.py", "real/test_restore.py")
PLANS = (
    "real/test_newest_wins.py",
    "full/integration/test_other_shapes.py",
    "real/test_derived.py",
    "full/integration/test_another_row.py",
    "real/test_text_keys.py",
)
STORE = (
    "real/test_newest_wins.py",
    "real/test_derived.py",
)
HISTORIES = "full/faults/test_model.py::test_random_histories_give_the_tables_of_the_model"
STORE_HISTORIES = tuple(
    f"{HISTORIES}[{kind}0]" for kind in ("with a table", "of a log table", "with deletes and truncates")
)


def require_passed(environment: dict[str, str], names: tuple[str, ...]) -> None:
    """Run tests, given by their paths below ``lakehouse_tests``, in this environment; fail if one of them fails.

    Tests of a killed process are skipped: on an engine its statement continues, which ``test_engine`` tests.
    """
    tests = [str(ROOT / "lakehouse_tests" / name) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not process_that_is_killed"]
    process = subprocess.run(
        [*command, *tests], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-1000:]
    assert " passed" in process.stdout
