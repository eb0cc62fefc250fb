"""The page about change streams: its SQL, settings, declaration and commands follow a database as it says."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.errors import LakehouseError
from lakehouse.kafka import read_topic
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.databases.connect import Connect
from lakehouse_tests.helpers.databases.encodings import PAGE
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.pages import Step, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment
from lakehouse_tests.helpers.waiting import wait_until

DATABASE, TOPIC = "shop", "shop.public.items"
DECLARATION = Path("src", "my_lake", "tables", "items.py")
ROWS = """
INSERT INTO items VALUES
    (1, 9.99, '2026-01-05', '2026-01-05 09:12:41.123456', '2026-01-05 09:12:41.123456+02', repeat('text ', 10)),
    (2, -0.01, '1969-12-31', '1969-12-31 23:59:59.999999', NULL, NULL),
    (3, NULL, NULL, NULL, '1600-01-01 00:00:00+00', NULL)
"""
_MD5 = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 900) i)"  # so long that it is stored outside
LONG_TEXT = f"UPDATE items SET description = {_MD5} WHERE id = 3"
CHANGES = (
    "UPDATE items SET price = 5, sold_at = '0001-01-01 00:00:00+00' WHERE id = 3",
    "UPDATE items SET day = NULL WHERE id = 1",
    "DELETE FROM items WHERE id = 2",
)


class PageRun:
    """The steps of the page, with the addresses of this machine in place of the page's."""

    def __init__(self, broker: Settings, server: Postgres, folder: Path) -> None:
        self.broker, self._server = broker, server
        variables = {"PYTHONPATH": str(ROOT)}
        self.environment = user_environment(Path(sys.executable).parent, **variables)
        self.page = TypedPage(folder, self.environment, str(DECLARATION))
        self.steps = [self._with_addresses(step) for step in read_steps(PAGE)]
        self.connect: Connect | None = None

    def _with_addresses(self, step: Step) -> Step:
        text = step.text.replace("db:5432", f"127.0.0.1:{self._server.port}")
        text = text.replace("kafka:9092", bootstrap_servers(self.broker))
        text = text.replace("hostname=db\n", "hostname=127.0.0.1\n").replace(
            "port=5432\n", f"port={self._server.port}\n"
        )
        return step._replace(text=text)

    def of(self, language: str) -> list[Step]:
        return [step for step in self.steps if step.language == language]

    def run_sql(self, *statements: str) -> None:
        self._server.run(*statements, database=DATABASE)

    def start_connector(self, folder: Path) -> None:
        """Start Connect with the settings of the page; wait until all rows are in the topic."""
        step, *_ = self.of("properties")  # the others are parts of the settings
        connector = dict(line.split("=", 1) for line in step.text.splitlines())
        self.connect = Connect(self.broker, folder, connector)
        self.connect.start()
        self.wait_for_records(3)

    def wait_for_records(self, count: int) -> None:
        assert wait_until(lambda: self._count_records() >= count, 60.0)

    def _count_records(self) -> int:
        try:
            return sum(read_topic(self.broker, TOPIC).end.values())
        except LakehouseError:  # the connector has not created the topic yet
            return 0

    def follow(self, steps: list[Step]) -> None:
        assert self.page.follow(steps) == []

    def call(self, text: str) -> subprocess.CompletedProcess[str]:
        """Type commands in the project; they may fail."""
        command = ["bash", "-c", text]
        folder, environment = self.page.folder, self.environment
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def run(broker: Settings, postgres: Postgres, tmp_path: Path) -> Iterator[PageRun]:
    run = PageRun(broker, postgres, tmp_path)
    postgres.run(f"CREATE DATABASE {DATABASE}")
    try:
        yield run
    finally:
        if run.connect:
            run.connect.kill()


@pytest.mark.timeout(600)
def test_the_steps_of_the_page_follow_a_database_and_compare_names_a_changed_row(run: PageRun, tmp_path: Path) -> None:
    create_table, prepare = run.of("sql")
    run.run_sql(create_table.text, ROWS, LONG_TEXT, *filter(str.strip, prepare.text.split(";")))
    run.start_connector(tmp_path)
    new_table, *commands = run.of("sh")
    run.follow([new_table])
    proposed_text = (run.page.folder / DECLARATION).read_text()
    assert 'key=["id"]' in proposed_text and "Debezium(" in proposed_text
    run.follow([*run.of("python"), *commands])
    _, merge, compare = commands
    run.run_sql(*CHANGES)
    run.wait_for_records(7)  # with the tombstone after the delete
    assert run.call(merge.text).returncode == 0
    assert run.call(compare.text).stdout == "Equal: 2 rows of public.items, 2 of items.\n"
    (table_folder,) = run.page.folder.glob("**/tables/items/_delta_log")
    DeltaTable(table_folder.parent).update(updates={"price": "CAST(6 AS DECIMAL(10,2))"}, predicate="id = 3")
    result = run.call(compare.text)
    assert result.returncode == 1
    assert [line.split() for line in result.stdout.splitlines() if "price" in line] == [["3", "price", "5.00", "6.00"]]
