"""``lakehouse doctor`` names each part that is broken or slow, and what to do."""

import json
import sys
from pathlib import Path

import orjson
import pytest

from lakehouse.cli import main
from lakehouse_tests.helpers.commands import lakehouse_says

pytestmark = pytest.mark.usefixtures("home")


def examine(*codes: int) -> dict[str, dict[str, str]]:
    """The parts that ``doctor`` shows before it ends with one of these exit codes, by their names."""
    result = lakehouse_says("doctor", "--json")
    assert result.code in codes
    return {part["part"]: part for part in json.loads(result.out)}


def test_doctor_names_a_broken_part_and_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    parts = examine(main.FAILED)
    assert parts["Java"]["state"] == "broken"
    assert "17 or 21" in parts["Java"]["detail"]
    assert parts["Python"]["state"] == "ok"
    assert parts["broker (embedded)"]["state"] == "note"


def test_doctor_reports_slower_decoding_if_the_native_parser_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, state in ((orjson, "ok"), (None, "note")):
        monkeypatch.setitem(sys.modules, "orjson", module)
        part = examine(main.DONE, main.FAILED)["orjson"]
        assert part["state"] == state
        assert ("slower" in part["detail"]) == (state == "note")


def test_doctor_reports_an_external_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert examine(main.FAILED)["broker (outside)"]["state"] == "broken"


def test_doctor_reports_a_table_root_that_is_not_writable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_TABLES", "/proc/tables")  # no folder can be created there
    assert examine(main.FAILED)["tables"]["state"] == "broken"
