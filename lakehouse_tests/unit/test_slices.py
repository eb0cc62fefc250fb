"""The slices of the tests at full scale: each test is in exactly one, and the slices take about equally long."""

from collections import Counter

import pytest

from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.slices import (
    HALF,
    file_of,
    function_of,
    halves_of,
    partition,
    read_durations,
    waits_for_a_slice,
)

FILES = (ROOT / "lakehouse_tests").rglob("test_*.py")
FULL = sorted(str(file.relative_to(ROOT)) for file in FILES if "full" in file.parts or "mark.slow" in file.read_text())


def test_every_test_is_in_exactly_one_slice() -> None:
    """For all measured tests, and one new test of each file."""
    tests = [*read_durations(), *(f"{file}::test_that_is_new" for file in FULL)]
    halves = partition(tests, read_durations())
    assert Counter(test for half in halves for test in half) == Counter(tests)
    slices = [halves_of(str(number), halves) for number in range(len(halves) // 2)]
    assert Counter(test for halves in slices for half in halves for test in half) == Counter(tests)


def test_only_slow_tests_and_tests_at_full_scale_wait_for_a_slice() -> None:
    assert waits_for_a_slice("lakehouse_tests/full/faults/test_crash.py::test_one[a]", {"test_one[a]"})
    assert waits_for_a_slice("lakehouse_tests/real/test_gaps.py::test_one", {"test_one", "slow"})
    assert not waits_for_a_slice("lakehouse_tests/real/test_gaps.py::test_one", {"test_one", "invariant"})


def test_the_table_of_durations_names_existing_files() -> None:
    assert {file_of(test) for test in read_durations()} <= set(FULL)


def test_no_slice_is_much_longer_than_the_limit() -> None:
    """With fifty cases per test, as the longest tests have."""
    seconds = {
        f"{name}.py::test": float(duration) for name, duration in enumerate([2000, 900, 300, 200, 200, 150, 30, 20, 10])
    }
    tests = [f"{test}[{case}]" for test in seconds for case in range(50)]
    halves = partition(tests, seconds)
    lengths = [sum(seconds[function_of(test)] / 50 for test in half) for half in halves]
    assert sum(lengths) == pytest.approx(sum(seconds.values()))
    assert max(lengths) <= 1.05 * HALF


def test_no_short_half_waits_for_a_long_one() -> None:
    """A test that takes longer than a half is paired with another one that does."""
    seconds = {f"{name}.py::test": part * HALF for name, part in enumerate([3.0, 1.0, 1.0, 2.5, 1.0, 1.0])}
    halves = partition(seconds, seconds)
    slices = [halves_of(str(number), halves) for number in range(len(halves) // 2)]
    lengths = sorted(sorted(sum(seconds[test] / HALF for test in half) for half in halves) for halves in slices)
    assert lengths == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [2.5, 3.0]]


def test_a_file_is_in_one_half_unless_it_is_longer_than_a_half() -> None:
    parts = {"a.py::one": 0.45, "a.py::two": 0.45, "b.py::one": 0.6, "b.py::two": 0.7}
    seconds = {test: part * HALF for test, part in parts.items()}
    halves = partition(seconds, seconds)
    assert sorted(sorted(half) for half in halves) == [[], ["a.py::one", "a.py::two"], ["b.py::one"], ["b.py::two"]]


def test_a_file_without_durations_counts_as_an_average_file() -> None:
    seconds = {f"{name}.py::one": HALF for name in "abcd"}
    halves = partition([*seconds, "new.py::one", "newer.py::one"], seconds)
    assert [len(half) for half in halves] == [1] * 6


def test_the_committed_tree_selects_the_slice() -> None:
    halves = [[str(number)] for number in range(8)]
    assert halves_of("tree", halves) in [halves_of(str(number), halves) for number in range(4)]
    assert halves_of("1", halves) == halves_of("5", halves) == [["1"], ["5"]]
