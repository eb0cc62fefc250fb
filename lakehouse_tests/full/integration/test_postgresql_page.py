"""The page about PostgreSQL: its commands, typed in a new project, with the user and the grants that it names."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.pages import HOW_TO, Step, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment

PAGE = HOW_TO / "postgresql.md"
TEXT = PAGE.read_text(encoding="utf-8")
STEPS = read_steps(PAGE)


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Postgres]:
    """A database in which the statements of the page were run."""
    postgres.run("CREATE DATABASE shop", "CREATE ROLE reader LOGIN")
    create, grant = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    postgres.run(create, "ALTER ROLE lake SET statement_timeout = 0", grant, database="shop")
    yield postgres
    postgres.run("DROP DATABASE shop WITH (FORCE)", "DROP ROLE reader", "DROP ROLE lake")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[TypedPage]:
    page = TypedPage(tmp_path, user_environment(Path(sys.executable).parent, PYTHONPATH=str(ROOT)))
    yield page
    page.stop()


def with_server(step: Step, port: int) -> Step:
    """A step with the address of the server of the test."""
    return step._replace(text=step.text.replace("db.example.com:5432", f"127.0.0.1:{port}"))


@pytest.mark.timeout(900)
def test_the_steps_of_the_page_lead_to_rows_in_postgresql(page: TypedPage, database: Postgres) -> None:
    install, *steps = [step for step in STEPS if step.language == "sh"]
    assert install.text.startswith("pip install ")
    assert page.follow(with_server(step, database.port) for step in steps) == []
    assert database.rows("SELECT has_table_privilege('reader', 'sinks.readings', 'SELECT')", "shop") == [(True,)]
    rows = database.rows("SELECT sensor, celsius FROM sinks.readings ORDER BY sensor", "shop")
    assert [(sensor, float(celsius)) for sensor, celsius in rows] == [("cellar", 11.0), ("roof", 14.5)]
    assert database.rows("SELECT sink, version FROM sinks.lakehouse_progress", "shop") == [("readings_in_postgres", 1)]
    rename = re.findall(r"`(UPDATE .*?)`", " ".join(TEXT.split()))
    remove = re.findall(r"`(DROP TABLE .*?)`", " ".join(TEXT.split()))
    database.run(*rename, *remove, database="shop")
    assert database.rows("SELECT count(*) FROM sinks.lakehouse_progress", "shop") == [(0,)]
