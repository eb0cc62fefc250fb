"""The page about SQL Server: its commands, typed in a new project, with a stand-in for the server."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.databases.sql_server import PASSWORD, SqlServer, running_sql_server
from lakehouse_tests.helpers.pages import HOW_TO, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment

PAGE = HOW_TO / "sql-server.md"
ADDRESS = "mssql://lake:Choose-1-secret@db.example.com:1433/shop"


@pytest.fixture
def server(postgres: Postgres) -> Iterator[SqlServer]:
    postgres.run("CREATE DATABASE shop_of_page")
    postgres.run("CREATE SCHEMA sinks", database="shop_of_page")
    with running_sql_server(postgres, "shop_of_page") as server:
        yield server
    postgres.run("DROP DATABASE shop_of_page WITH (FORCE)")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[TypedPage]:
    page = TypedPage(tmp_path, user_environment(Path(sys.executable).parent, PYTHONPATH=str(ROOT)))
    yield page
    page.stop()


@pytest.mark.timeout(900)
def test_the_steps_of_the_page_lead_to_rows_in_sql_server(page: TypedPage, server: SqlServer) -> None:
    install, *steps = [step for step in read_steps(PAGE) if step.language == "sh"]
    assert install.text.startswith("pip install ") and PASSWORD not in PAGE.read_text(encoding="utf-8")
    steps = [step._replace(text=step.text.replace(ADDRESS, server.url)) for step in steps]
    assert page.follow(steps) == []
    rows = server.postgres.rows("SELECT sensor, celsius FROM sinks.readings ORDER BY sensor", server.database)
    assert [(sensor, float(celsius)) for sensor, celsius in rows] == [("cellar", 11.0), ("roof", 14.5)]
    progress = server.postgres.rows("SELECT sink, version FROM sinks.lakehouse_progress", server.database)
    assert progress == [("readings_in_sql_server", 1)]
