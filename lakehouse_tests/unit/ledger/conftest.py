"""A table whose log was written without a JVM."""

from pathlib import Path

import pytest

from lakehouse_tests.helpers.tables.logs import WrittenTable


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    """A table with three batches, as versions 1 to 3; its progress equals its number of rows."""
    table = WrittenTable.create(tmp_path / "t")
    table.batches(3)
    return table
