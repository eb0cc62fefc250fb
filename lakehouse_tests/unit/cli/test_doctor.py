"""``lakehouse doctor`` names each part that is broken or slow, and what to do."""

import json
import sys
from pathlib import Path

import orjson
import pytest

from lakehouse.cli import main

pytestmark = pytest.mark.usefixtures("home")


def test_doctor_names_a_broken_part_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main.run(["doctor", "--json"]) == 1
    parts = {part["part"]: part for part in json.loads(capsys.readouterr().out)}
    assert parts["Java"]["state"] == "broken"
    assert "17 or 21" in parts["Java"]["detail"]
    assert parts["Python"]["state"] == "ok"
    assert parts["broker (embedded)"]["state"] == "note"


def test_doctor_reports_slower_decoding_if_the_native_parser_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module, state in ((orjson, "ok"), (None, "note")):
        monkeypatch.setitem(sys.modules, "orjson", module)
        main.run(["doctor", "--json"])
        (part,) = (part for part in json.loads(capsys.readouterr().out) if part["part"] == "orjson")
        assert part["state"] == state
        assert ("slower" in part["detail"]) == (state == "note")


def test_doctor_reports_an_external_broker_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert main.run(["doctor", "--json"]) == 1
    parts = {part["part"]: part for part in json.loads(capsys.readouterr().out)}
    assert parts["broker (outside)"]["state"] == "broken"


def test_doctor_reports_a_table_root_that_is_not_writable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_TABLES", "/proc/tables")  # no folder can be created there
    assert main.run(["doctor", "--json"]) == 1
    parts = {part["part"]: part for part in json.loads(capsys.readouterr().out)}
    assert parts["tables"]["state"] == "broken"
