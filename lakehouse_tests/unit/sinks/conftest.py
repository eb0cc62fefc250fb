"""A table of sales, and a database into which a sink writes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.tables.delivered import Target, new_sql_server_target, new_target
from lakehouse_tests.helpers.tables.exported import append, day


@pytest.fixture
def target(postgres: Postgres, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Target]:
    """Three sales, which are not delivered yet, to PostgreSQL or to what a test names as a parameter."""
    new = new_sql_server_target if getattr(request, "param", "") == "SQL Server" else new_target
    with new(postgres, tmp_path) as target:
        append(target.settings, ("a", 1.0, day(1)), ("b", 2.0, day(2)), ("c", None, None))
        yield target
