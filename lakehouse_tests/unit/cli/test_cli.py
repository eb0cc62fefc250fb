"""The command line: help, wrong use, exit codes, JSON, and what it says where something is missing."""

import json
import os
import re
import socket
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import write_deltalake
from pyarrow import table as arrow_table

from lakehouse import query
from lakehouse.cli import main
from lakehouse.cli.output import print_json, shown
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import ROOT

VERBS = sorted(
    (
        "demo init new-table up doctor topics peek plan publish load-base merge follow replay redrive maintain"
        " rewrite status audit rejected query accept-gap accept-difference recover-progress"
    ).split()
)
HEAVY = {"aiokafka", "dagster", "deltalake", "duckdb", "pyarrow", "pydantic", "pyspark"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and no setting of the machine's own."""
    kept = ("LAKEHOUSE_JARS", "LAKEHOUSE_DECLARATIONS")
    for name in [name for name in os.environ if name.startswith("LAKEHOUSE_") and name not in kept]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".lakehouse"


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on standard error, which is one line, and nothing on standard output."""
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1, said.err
    assert "Traceback" not in said.err
    return said.err


def test_help_lists_exactly_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    listed = re.findall(r"^│ ([a-z][a-z-]*) ", capsys.readouterr().out, re.MULTILINE)
    assert sorted(listed) == VERBS


def test_only_a_difference_that_there_is_can_be_accepted_and_for_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    accept = ["accept-difference", "temperatures", "--version", "7", "--yes", "--reason"]
    assert main.run([*accept, " "]) == 2
    assert "Say why it is accepted" in capsys.readouterr().err
    assert main.run([*accept, "replayed"]) == 1
    assert "There is no difference to accept at version 7 of temperatures" in one_sentence(capsys)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([verb, "--help"]) == 0
    assert f"$ lakehouse {verb}" in capsys.readouterr().out.replace("\n ", " ")


def test_help_loads_nothing_heavy() -> None:
    code = f"import sys, lakehouse.cli.main; print(sorted({HEAVY} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["mend"], "No such command 'mend'"),
        (["merge", "--fast"], "No such option"),
        (["merge", "rain"], "No table is declared as 'rain'"),
        (["merge", "--max-records", "0"], "--max-records"),
        (["publish"], "TABLE"),
        (["publish", "temperatures"], "either a file or --generate"),
        (["publish", "temperatures", "f.jsonl", "--generate", "stream"], "either a file or --generate"),
        (["publish", "temperatures", "missing.jsonl"], "missing.jsonl cannot be read"),
        (["publish", "temperatures", "--generate", "rain"], "--generate"),
        (["replay", "--partition", "0"], "No such option"),
        (["replay", "temperatures", "0:5-5"], "FROM below TO"),
        (["rejected", "--reason", "rain"], "no such reason; one of tombstone, "),
        (["rejected", "--limit", "-1"], "--limit"),
        (["rejected", "rain"], "No table is declared as 'rain'"),
        (["redrive", "--reason", "rain"], "no such reason; one of tombstone, "),
        (["redrive", "rain"], "No table is declared as 'rain'"),
        (["topics", "--partitions", "3"], "goes with --create"),
        (["query"], "SQL"),
        (["up", "cooker"], "cooker"),
        (["up", "--port", "99999"], "--port"),
    ],
)
def test_wrong_use_gets_one_sentence_and_code_2(
    arguments: list[str], fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 2
    said = one_sentence(capsys)
    assert fact in said
    verb = f" {arguments[0]}" if arguments[0] in VERBS else ""
    assert said.endswith(f" See lakehouse{verb} --help.\n")


def test_a_setting_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_SECURITY_PROTOCOL", "NONE")
    assert main.run(["status"]) == 1
    assert "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL='NONE'" in one_sentence(capsys)


def test_wrong_sql_gets_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["query", "SELECT x FROM nothing"]) == 1
    assert "nothing" in one_sentence(capsys)


def test_an_unexpected_error_is_one_sentence_and_kept_whole_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("seven is not eight\nand much more")

    monkeypatch.setattr(query, "query", fail)
    assert main.run(["query", "SELECT 1"]) == 1
    said = one_sentence(capsys)
    assert "ValueError: seven is not eight (" in said
    assert "Run it again" in said
    (named,) = re.findall(r"is in (\S+)\)", said)
    kept = Path(named)
    assert "and much more" in kept.read_text()
    kept.unlink()


def test_an_interrupted_verb_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(query, "query", interrupt)
    assert main.run(["query", "SELECT 1"]) == 130
    assert capsys.readouterr() == ("", "")


def test_status_without_broker_and_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["status"]) == 0
    said = capsys.readouterr().out
    assert "not there yet" in said
    assert "lakehouse up" in said


def test_status_as_json_says_the_same(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert main.run(["status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bootstrap_servers"] is None
    assert [table["table"] for table in told["tables"]] == ["temperatures"]
    assert told["tables"][0]["exists"] is False
    assert told["tables"][0]["problem"]
    assert told["tables"][0]["uri"] == str(home / "tables" / "temperatures")


def test_looking_creates_nothing(home: Path) -> None:
    for arguments in (["status"], ["audit"], ["rejected"], ["query", "SELECT 1"], ["doctor"]):
        main.run(arguments)
    assert not home.exists()


def test_audit_of_no_table_finds_nothing_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["audit", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["entries"] == []
    assert all(finding["passed"] for finding in told["findings"])


def test_query_as_json_is_a_list_of_objects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["query", "--json", "SELECT 1 AS one, CAST(2.5 AS DECIMAL(9,6)) AS exact, NULL AS nothing"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"one": 1, "exact": "2.500000", "nothing": None}]


def test_json_keeps_decimals_and_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"exact": Decimal("0.1"), "bytes": b"\xff\xfe", "within": [{"bytes": (b"\xfb",)}], "map": {b"\xff": 1}})
    told = json.loads(capsys.readouterr().out)
    assert told == {"exact": "0.1", "bytes": "//4=", "within": [{"bytes": ["+w=="]}], "map": {"/w==": 1}}


def test_numbers_that_json_does_not_have_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["query", "--json", "SELECT 'nan'::DOUBLE a, ['inf'::FLOAT, '-inf'] b, 1e300 c"]) == 0

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    told = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert told == [{"a": "NaN", "b": ["Infinity", "-Infinity"], "c": 1e300}]


def test_two_columns_of_one_name_are_not_told_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["query", "--json", "SELECT 1 a, 2 a, 3 b"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "more than one column is named a" in said.err
    assert "AS" in said.err
    assert main.run(["query", "SELECT 1 a, 2 a"]) == 0
    assert "1   2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "written"), [(1e-9, "1e-09"), (-2.5e-7, "-2.5e-07"), (0.0, "0.0"), (21.4000001, "21.4"), (0.002, "0.002")]
)
def test_a_small_number_is_not_shown_as_nothing(value: float, written: str) -> None:
    assert shown(value) == written


def test_doctor_names_what_is_broken_and_what_to_do(
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


def test_doctor_says_that_records_are_decoded_slower_where_their_parser_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module, state in ((orjson, "ok"), (None, "note")):
        monkeypatch.setitem(sys.modules, "orjson", module)
        main.run(["doctor", "--json"])
        (part,) = (part for part in json.loads(capsys.readouterr().out) if part["part"] == "orjson")
        assert part["state"] == state
        assert ("slower" in part["detail"]) == (state == "note")


def test_doctor_says_when_an_outside_broker_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert main.run(["doctor", "--json"]) == 1
    parts = {part["part"]: part for part in json.loads(capsys.readouterr().out)}
    assert parts["broker (outside)"]["state"] == "broken"


def test_doctor_reports_a_root_of_tables_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_TABLES", "/proc/tables")  # where nobody can make a folder
    assert main.run(["doctor", "--json"]) == 1
    parts = {part["part"]: part for part in json.loads(capsys.readouterr().out)}
    assert parts["tables"]["state"] == "broken"


def test_demo_touches_no_data_that_it_did_not_write(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    uri = str(home / "tables" / "temperatures")
    write_deltalake(uri, arrow_table({"mine": [1]}))
    assert main.run(["demo"]) == 1
    assert "did not write" in one_sentence(capsys)
    assert sorted(path.name for path in home.iterdir()) == ["tables"]


@pytest.mark.parametrize("name", ["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "LAKEHOUSE_TABLES"])
def test_demo_asks_before_it_writes_outside_its_home(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "elsewhere:9092")
    assert main.run(["demo"]) == 1
    assert "--yes" in one_sentence(capsys)


def test_up_says_when_the_port_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main.run(["up", "webserver", "--port", str(port)]) == 1
    assert f"Port {port} is in use" in one_sentence(capsys)


def test_readme_lists_every_verb() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [verb for verb in VERBS if f"`{verb}" not in readme] == []


def test_readme_lists_every_setting() -> None:
    readme = (ROOT / "README.md").read_text()
    names = [f"`LAKEHOUSE_{name.upper()}`" for name in Settings.model_fields]
    assert [name for name in names if name not in readme] == []
    assert sorted(set(re.findall(r"`LAKEHOUSE_\w+`", readme))) == sorted(names)


def test_readme_shows_only_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    shown = set(re.findall(r"^(?:\.venv/bin/)?lakehouse ([a-z-]+)", readme, re.MULTILINE))
    assert shown <= set(VERBS)
    assert shown


def test_the_declaration_in_the_readme_can_be_made() -> None:
    readme = (ROOT / "README.md").read_text()
    code, *_ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    made: dict[str, Any] = {"__file__": "prices.py"}
    exec(code, made)  # noqa: S102 - our own text
    assert made["prices"].changes_name == "prices_changes"
