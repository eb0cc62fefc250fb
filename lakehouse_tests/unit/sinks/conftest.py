"""A table of sales, and a database into which a sink writes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.tables.delivered import Target, new_target
from lakehouse_tests.helpers.tables.exported import append, day


@pytest.fixture
def target(postgres: Postgres, tmp_path: Path) -> Iterator[Target]:
    """Three sales, which are not delivered yet."""
    with new_target(postgres, tmp_path) as target:
        append(target.settings, ("a", 1.0, day(1)), ("b", 2.0, day(2)), ("c", None, None))
        yield target
