"""A table from before the first release cannot be read; the error advises to load it again."""

import re
from pathlib import Path

import pytest

from lakehouse.errors import LedgerError
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.planned_changes import plan_changes
from lakehouse.operations.rejections import list_rejected
from lakehouse.settings import Settings
from lakehouse_tests.fixtures import READINGS, unpack_version_5

pytestmark = pytest.mark.invariant("1.11")

NAMES = [READINGS.name, READINGS.rejected_name, READINGS.changes_name, READINGS.rollups[0].name]
REFUSAL = r"written by a lakehouse before 0\.1\.0 \(metadata 5; .* load the table again"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path, _env_file=None)
    unpack_version_5(Path(settings.table_uri(READINGS.name)).parent)
    return settings


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_table_is_refused(settings: Settings, name: str) -> None:
    with pytest.raises(LedgerError, match=REFUSAL):
        read_ledger(settings.table_uri(name), name)


def refused_tables(settings: Settings) -> list[str]:
    """Return the tables that the plan refuses."""
    changes = [change for change in plan_changes(settings, READINGS) if change.kind == "refuse"]
    assert all(re.search(REFUSAL, change.detail) for change in changes)
    return [change.table for change in changes]


def test_the_plan_refuses_every_table(settings: Settings) -> None:
    assert refused_tables(settings) == [READINGS.name]
    Path(settings.table_uri(READINGS.name)).rename(settings.home / "aside")
    assert sorted(refused_tables(settings)) == sorted({*NAMES} - {READINGS.name})


def test_old_rejected_records_of_a_new_merged_table_are_refused(settings: Settings) -> None:
    Path(settings.table_uri(READINGS.name)).rename(settings.home / "aside")
    with pytest.raises(LedgerError, match=REFUSAL):
        list_rejected(settings, READINGS)
