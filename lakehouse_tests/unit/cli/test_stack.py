"""The services that ``up`` runs by default, and the lines of their logs that it shows."""

from pathlib import Path

import pytest

from lakehouse.cli.services import Service
from lakehouse.cli.stack import Detail, LogFilter, _default_services
from lakehouse.settings import Settings

TABLE = """
from lakehouse import Avro, Column, Json, StreamTable
orders = StreamTable("orders", "orders", "", [Column("id", "INT", "", required=True)], ["id"], format={format})
"""


@pytest.mark.parametrize(("format_text", "runs"), [("Json()", False), ("Json(framed=True)", False), ("Avro()", True)])
def test_a_registry_runs_only_if_a_declared_table_needs_its_schemas(
    format_text: str, runs: bool, tmp_path: Path
) -> None:
    folder = tmp_path / f"lake_{format_text.partition('(')[0].lower()}_{len(format_text)}"
    folder.mkdir()
    (folder / "orders.py").write_text(TABLE.replace("{format}", format_text))
    services = _default_services(Settings(declarations=str(folder)))
    assert (Service.registry in services) is runs
    assert set(Service) - set(services) <= {Service.registry}


AT = (
    "\x1b[32m2026-11-25 14:44:{second:02d} +0000\x1b[0m - dagster.daemon.SensorDaemon - \x1b[34m{level}\x1b[0m - {text}"
)
EVALUATION = "Checking for new runs for sensor: a_sensor"
IDLE_LINE = "Sensor a_sensor skipped: Nothing to merge."


def shown_texts(detail: Detail, *texts: str, level: str = "INFO") -> list[str]:
    log_filter = LogFilter(detail)
    lines = [(AT.format(second=second, level=level, text=text), text) for second, text in enumerate(texts)]
    return [text for line, text in lines if log_filter.shows(line)]


def test_an_idle_sensor_is_shown_once() -> None:
    assert shown_texts(Detail.events, *[EVALUATION, IDLE_LINE] * 40) == [IDLE_LINE]


def test_a_changed_reason_to_skip_is_shown_and_also_the_first_reason_when_it_returns() -> None:
    other_skip = "Sensor a_sensor skipped: The broker is down."
    assert shown_texts(Detail.events, IDLE_LINE, other_skip, EVALUATION, other_skip, IDLE_LINE) == [
        IDLE_LINE,
        other_skip,
        IDLE_LINE,
    ]


def test_each_sensor_has_its_own_last_reason() -> None:
    second = IDLE_LINE.replace("a_sensor", "b_sensor")
    assert shown_texts(Detail.events, IDLE_LINE, second, IDLE_LINE, second) == [IDLE_LINE, second]


def test_a_repeated_line_is_shown_once_and_other_lines_stay() -> None:
    assert shown_texts(Detail.events, "Launching run 1", "Launching run 1", "Launching run 2") == [
        "Launching run 1",
        "Launching run 2",
    ]


def test_quiet_shows_only_problems_and_all_shows_everything() -> None:
    assert shown_texts(Detail.quiet, EVALUATION, IDLE_LINE) == []
    assert shown_texts(Detail.quiet, "Sensor failed", level="ERROR") == ["Sensor failed"]
    assert shown_texts(Detail.all, *[EVALUATION, IDLE_LINE] * 3) == [EVALUATION, IDLE_LINE] * 3
