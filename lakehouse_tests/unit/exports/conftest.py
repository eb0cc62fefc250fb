"""A table of sales, and a new folder of declarations for each test that asks for one."""

from pathlib import Path

import pytest

from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.exported import append, day
from lakehouse_tests.unit.discovery.conftest import folder

__all__ = ["folder", "settings"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings with a table of three sales, which has change data."""
    settings = Settings(home=tmp_path, sync=False)
    append(settings, ("a", 1.0, day(1)), ("b", 2.0, day(2)), ("c", None, None))
    return settings
