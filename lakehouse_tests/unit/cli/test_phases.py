"""What a verb that takes long says of itself."""

import logging

import pytest

from lakehouse.cli import phases
from lakehouse.cli.phases import NOW
from lakehouse_tests.helpers.waiting import wait_until

LOG = logging.getLogger("lakehouse.ingest.batches")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "_FIRST", 0.0)


@pytest.mark.timeout(60)
def test_where_no_terminal_shows_it_a_phase_that_lasts_is_told_with_its_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = ""

    def is_told() -> bool:
        nonlocal told
        told += capsys.readouterr().err
        return "Reading 12 offsets, " in told

    with phases.phases():
        LOG.info("Reading %d offsets", 12)
        assert wait_until(is_told)


def test_the_phase_is_the_one_that_began_last_and_none_before_the_first() -> None:
    with phases.phases():
        assert str(NOW) == ""
        LOG.info("Planning")
        LOG.info("Merging")
        assert str(NOW).startswith("Merging, ")


def test_what_a_person_has_to_know_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with phases.phases():
        LOG.warning("Stopping the statement that writes %s", "t")
    assert "Stopping the statement that writes t" in capsys.readouterr().err
