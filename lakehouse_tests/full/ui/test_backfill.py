"""A backfill of two days, chosen in Dagster's dialog in a real browser: one run of a real daemon replays both."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.declaration import Column, StreamTable, Topic
from lakehouse.kafka import publish
from lakehouse.ledger.ledger import read_ledger
from lakehouse.settings import Settings
from lakehouse_tests.helpers.up import Up
from lakehouse_tests.helpers.waiting import wait_until
from lakehouse_tests.helpers.webserver import CHROMIUM, open_page

DECLARATION = """
from datetime import date
from lakehouse import Column, StreamTable, Topic

columns = [Column("id", "BIGINT", "Number.", required=True)]
topic = Topic("dated", partitions=1, replay_from=date(2026, 1, 1))
dated = StreamTable("dated", source=topic, doc="Numbers.", columns=columns, key=["id"])
"""
TABLE = StreamTable(
    "dated",
    source=Topic("dated", partitions=1),
    doc="",
    columns=[Column("id", "BIGINT", "", required=True)],
    key=["id"],
)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path: install Debian's package chromium"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", spark_master="local[2]", _env_file=None)


@pytest.fixture
def stack(settings: Settings, tmp_path: Path) -> Iterator[Up]:
    declarations = tmp_path / "dated_tables"
    declarations.mkdir()
    (declarations / "dated.py").write_text(DECLARATION)
    stack = Up(settings.home, declarations=declarations)
    yield stack
    stack.stop()


def launch_backfill(stack: Up, days: str) -> None:
    """Choose days in the dialog of Materialize, and launch."""
    with open_page() as page:
        page.goto(f"http://127.0.0.1:{stack.port}/assets/dated_replayed")
        page.get_by_role("button").filter(has_text=re.compile("^Materialize")).first.click()
        dialog = page.get_by_role("dialog")
        days_field = dialog.get_by_role("textbox")
        days_field.fill(days)
        days_field.press("Enter")
        dialog.get_by_role("button").filter(has_text=re.compile("^Launch (1 run|backfill)$")).click()
        dialog.wait_for(state="detached")


def is_materialized(settings: Settings) -> bool:
    """Whether Dagster knows that the merged table exists; else it asks for a confirmation."""
    with dg.DagsterInstance.from_config(str(settings.home / "dagster")) as instance:
        return instance.get_latest_materialization_event(dg.AssetKey("dated")) is not None


def results(settings: Settings) -> list[bool]:
    """The results of the check of replays, oldest first."""
    key = dg.AssetCheckKey(dg.AssetKey("dated_replayed"), "rows_unchanged")
    with dg.DagsterInstance.from_config(str(settings.home / "dagster")) as instance:
        records = instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
        evaluations = [record.evaluation for record in reversed(records)]
    return [evaluation.passed for evaluation in evaluations if isinstance(evaluation, dg.AssetCheckEvaluation)]


def test_a_backfill_of_two_days_is_one_replay_that_changes_no_row(stack: Up, settings: Settings) -> None:
    assert stack.wait_for_log(f"Dagster is at http://127.0.0.1:{stack.port}"), stack.log.read_text()
    assert publish(settings, TABLE, [b'{"id": %d}' % number for number in range(5)]) == 5
    uri = settings.table_uri("dated")
    assert wait_until(lambda: read_ledger(uri, "dated").totals.read == 5, 180), stack.log.read_text()
    assert wait_until(lambda: is_materialized(settings), 120), stack.log.read_text()
    version = read_ledger(uri, "dated").version
    today = datetime.now(UTC).date()
    launch_backfill(stack, f"[{today - timedelta(days=1)}...{today}]")
    assert wait_until(lambda: bool(results(settings)), 180), stack.log.read_text()
    assert results(settings) == [True]
    entries = [entry for entry in read_ledger(uri, "dated").entries if entry.version > version]
    assert [entry.commit.kind for entry in entries] == ["replay"]
    assert entries[0].commit.read == 5
    assert entries[0].metrics.inserted == entries[0].metrics.updated == 0
