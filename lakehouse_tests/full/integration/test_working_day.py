"""A working day with a table: proposed while ``up`` runs, accepted, found wrong, corrected, and erased from.

Then Ctrl-C, a topic with a new name, and the removal. After each step the rows and the figures are compared with what
was published.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from getpass import getuser
from pathlib import Path
from socket import gethostname
from typing import Any

import dagster as dg
import pytest

from lakehouse.kafka.publish import publish_raw
from lakehouse.kafka.raw_records import RawRecord
from lakehouse.kafka.state import create_named_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.up import Up
from lakehouse_tests.helpers.waiting import wait_until

OTHER_TABLE = """
from lakehouse import Column, StreamTable

payments = StreamTable("payments", "payments", "Payments.", [Column("id", "BIGINT", doc="", required=True)], ["id"])
"""
WRONG, RIGHT = 'TextNumber(decimal=",")', 'TextNumber(thousands=",")'
AMOUNT = f'Column("amount", "DECIMAL(12,2)", doc="", required=True, written={WRONG}),\n'
PERSON = 3
RUNS = "Launched 1 runs"


class Day:
    """A home, its declarations, the stack that runs, and all records that were published, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(home=folder / "home", _env_file=None)
        self.declarations = folder / "declarations"
        self.declarations.mkdir()
        (self.declarations / "payments.py").write_text(OTHER_TABLE)
        self.file = self.declarations / "orders.py"
        self.published: list[dict[str, Any]] = []
        self.erased = 0  # records published before the erasure
        self.stack = self.start()

    def start(self) -> Up:
        stack = Up(self.settings.home, declarations=self.declarations)
        assert stack.wait_for_log("Dagster is at"), stack.log.read_text()
        return stack

    def types(self, *arguments: str) -> str:
        """What a command prints, on both outputs, its words separated by one space."""
        environment = {
            "LAKEHOUSE_HOME": str(self.settings.home),
            "LAKEHOUSE_DECLARATIONS": str(self.declarations),
            "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1g",
            "LAKEHOUSE_RECORD_USER": "true",
        }
        command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", *arguments]
        result = subprocess.run(
            command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return " ".join((result.stdout + result.stderr).replace("│", " ").split())

    def reads_json(self, *arguments: str) -> Any:
        text = self.types(*arguments, "--json")
        return json.loads(text[: max(text.rfind("]"), text.rfind("}")) + 1])

    def publishes(self, topic: str, ids: range) -> None:
        count = len(self.published)
        records = [
            {"order_id": id_, "person": id_ % 7, "amount": f"{1 + id_ % 4},{number:03}"}
            for number, id_ in enumerate(ids, count)
        ]
        lines = (
            RawRecord(value=json.dumps(record).encode(), key=str(record["order_id"]).encode()) for record in records
        )
        assert publish_raw(self.settings, topic, lines) == len(records)
        self.published += records

    def edits(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text, text
        self.file.write_text(text.replace(old, new))

    def rows(self) -> dict[int, Decimal]:
        rows = self.reads_json("query", "SELECT order_id, CAST(amount AS VARCHAR) AS amount FROM orders")
        return {row["order_id"]: Decimal(row["amount"]) for row in rows}

    def expected_rows(self) -> dict[int, Decimal]:
        """The newest record of each order, without those that were erased."""
        return {
            record["order_id"]: Decimal(record["amount"].replace(",", ""))
            for number, record in enumerate(self.published)
            if number >= self.erased or record["person"] != PERSON
        }

    def count_merged(self) -> int:
        """The offsets of all topics before which everything is merged."""
        (status,) = self.reads_json("status", "orders")["tables"]
        return sum(partition["progress"] or 0 for partition in status["partitions"])

    def newest_author(self) -> str:
        (status,) = self.reads_json("status", "orders")["tables"]
        return str(status["last_commit"]["run"])

    def assert_exact(self) -> None:
        assert self.rows() == self.expected_rows()
        (audit,) = self.reads_json("audit", "orders")
        assert [finding for finding in audit["findings"] if not finding["passed"]] == []


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    monkeypatch.setenv("LAKEHOUSE_REVIEWED", "false")
    new_day = Day(tmp_path)
    yield new_day
    if new_day.stack.process.poll() is None:
        new_day.stack.stop()


@pytest.mark.timeout(900)
def test_each_record_is_accounted_for_through_a_working_day(day: Day) -> None:
    propose_while_up_runs(day)
    accept_a_wrong_rule(day)
    read_again_by_the_right_rule(day)
    erase_a_person(day)
    press_ctrl_c_while_a_run_starts(day)
    rename_the_topic(day)
    remove_the_table(day)


def propose_while_up_runs(day: Day) -> None:
    create_named_topic(day.settings, "orders", 2)
    day.publishes("orders", range(1, 101))
    day.types("new-table", "orders", "--from-topic", "orders")
    assert day.stack.wait_for_log("orders is new: it waits for its first merge", 150), day.stack.log.read_text()
    assert "lakehouse merge orders" in day.types("plan", "orders", "--quick")
    assert not Path(day.settings.table_uri("orders")).exists(), "nobody has accepted the proposal"


def accept_a_wrong_rule(day: Day) -> None:
    day.file.write_text(re.sub(r'(?<=        )Column\("amount".*\n', AMOUNT, day.file.read_text()))
    day.edits("import Column, StreamTable", "import Column, StreamTable, TextNumber, Topics")
    day.types("merge", "orders")
    assert day.count_merged() == 100
    assert day.newest_author() == f"{getuser()}@{gethostname()}"
    assert day.rows()[6] == Decimal("3.01"), "the rule reads 3,005 as 3.005"


def read_again_by_the_right_rule(day: Day) -> None:
    day.edits(WRONG, RIGHT)
    assert "100 rows were read by an earlier declaration" in day.types("plan", "orders", "--quick")
    day.types("replay", "orders", "--again")
    day.assert_exact()


def erase_a_person(day: Day) -> None:
    day.erased = len(day.published)
    day.types("erase", "orders", "--where", f"person = {PERSON}", "--yes")
    day.types("replay", "orders")
    day.assert_exact()
    sql = f"SELECT count(*) AS n FROM orders_changes WHERE {PERSON} IN (person_before, person_after)"
    assert day.reads_json("query", sql) == [{"n": 0}]


def press_ctrl_c_while_a_run_starts(day: Day) -> None:
    count_before = day.stack.log.read_text().count(RUNS)
    day.publishes("orders", range(90, 131))
    assert wait_until(lambda: day.stack.log.read_text().count(RUNS) > count_before, 150), day.stack.log.read_text()
    _, left_processes = day.stack.stop()
    assert left_processes == {}
    day.stack = day.start()
    assert wait_until(lambda: day.count_merged() == len(day.published), 90), day.stack.log.read_text()
    day.assert_exact()
    with dg.DagsterInstance.from_config(str(day.settings.home / "dagster")) as instance:
        assert instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])) == []
        assert instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.CANCELED])) != []


def rename_the_topic(day: Day) -> None:
    create_named_topic(day.settings, "orders-new", 1)
    day.publishes("orders-new", range(120, 151))
    day.edits('topic="orders"', 'source=Topics(["orders", "orders-new"])')
    day.types("plan", "orders", "--accept")
    day.types("merge", "orders")
    assert day.count_merged() == len(day.published)
    day.assert_exact()


def remove_the_table(day: Day) -> None:
    day.types("remove", "orders", "--yes")
    day.file.unlink()
    paths = Path(day.settings.tables_root).rglob("*")
    assert [path for path in paths if "orders" in path.name and path.parent.name != ".locks"] == []
    day.types("new-table", "orders", "--from-topic", "orders-new")
    idle_lines = day.stack.log.read_text().count("Sensor payments_sensor skipped: Nothing to merge")
    assert idle_lines == 1, "the other table is idle all day, which up says once"
