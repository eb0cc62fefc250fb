"""The phases that a long command prints."""

import logging

import pytest

from lakehouse.cli import output
from lakehouse.cli.output import CURRENT_PHASE
from lakehouse_tests.helpers.waiting import wait_until

LOG = logging.getLogger("lakehouse.ingest.batches")


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_FIRST_NOTICE", 0.0)


@pytest.mark.timeout(60)
def test_without_a_terminal_a_long_phase_is_printed_with_its_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    stderr = ""

    def is_printed() -> bool:
        nonlocal stderr
        stderr += capsys.readouterr().err
        return "Reading 12 offsets, " in stderr

    with output.track_phases():
        LOG.info("Reading %d offsets", 12)
        assert wait_until(is_printed)


def test_the_current_phase_is_the_newest_and_empty_before_the_first() -> None:
    with output.track_phases():
        assert str(CURRENT_PHASE) == ""
        LOG.info("Planning")
        LOG.info("Merging")
        assert str(CURRENT_PHASE).startswith("Merging, ")


def test_a_warning_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with output.track_phases():
        LOG.warning("Stopping the statement that writes %s", "t")
    assert "Stopping the statement that writes t" in capsys.readouterr().err
