"""A table of sales, and databases into which a sink writes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.core.pipeline.transport import HttpTransport

from lakehouse.sinks import data_explorer, data_explorer_cluster
from lakehouse_tests.helpers.databases.data_explorer import running_data_explorer
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.tables.change_rows import ExplorerTarget, settings_of
from lakehouse_tests.helpers.tables.delivered import Target, new_sql_server_target, new_target
from lakehouse_tests.helpers.tables.exported import append, day


@pytest.fixture
def target(postgres: Postgres, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Target]:
    """Three sales, which are not delivered yet, to PostgreSQL or to what a test names as a parameter."""
    new = new_sql_server_target if getattr(request, "param", "") == "SQL Server" else new_target
    with new(postgres, tmp_path) as target:
        append(target.settings, ("a", 1.0, day(1)), ("b", 2.0, day(2)), ("c", None, None))
        yield target


@pytest.fixture
def explorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExplorerTarget]:
    """Three sales, which are not delivered yet; a part has one row, and nobody sleeps."""
    monkeypatch.setattr(data_explorer, "PART_BYTES", 100)
    monkeypatch.setattr(data_explorer, "PATIENCE", 0.5)
    for place in (data_explorer, data_explorer_cluster):
        monkeypatch.setattr(place, "sleep", lambda _: None)
    monkeypatch.setattr(HttpTransport, "sleep", lambda *_: None)
    with running_data_explorer() as service:
        settings = settings_of(tmp_path, f"Data Source=http://127.0.0.1:{service.port};Initial Catalog=lake")
        append(settings, ("a", 1.0, day(1)), ("b", 2.0, day(2)), ("c", None, None))
        yield ExplorerTarget(service, settings)
