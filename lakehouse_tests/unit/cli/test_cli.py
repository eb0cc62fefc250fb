"""The command line: wrong usage, errors, exit codes, JSON, and its messages if something is missing."""

import json
import re
import socket
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import write_deltalake
from pyarrow import table as arrow_table

from lakehouse import query
from lakehouse.cli import main
from lakehouse.cli.output import format_value, print_json
from lakehouse_tests.helpers.commands import (
    COMMANDS,
    error_line,
    lakehouse_says,
    misuse_of,
    output_of,
    read_json_output,
)

pytestmark = pytest.mark.usefixtures("home")


def test_accepting_a_difference_needs_an_existing_difference_and_a_reason() -> None:
    accept = ["repair", "difference", "temperatures", "--version", "7", "--yes", "--reason"]
    assert "Give a reason" in misuse_of(*accept, " ")
    assert "There is no difference to accept at version 7 of temperatures" in error_line(*accept, "replayed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mend"], "No such command 'mend'"),
        (["merge", "--fast"], "No such option"),
        (["merge", "rain"], "Unknown table 'rain'"),
        (["merge", "--max-records", "0"], "--max-records"),
        (["publish"], "TABLE"),
        (["publish", "rain", "f.jsonl"], "Unknown table 'rain'. For a topic that no table reads, add --raw. Declared"),
        (["publish", "temperatures"], "either a file or --generate"),
        (["publish", "temperatures", "f.jsonl", "--generate", "stream"], "either a file or --generate"),
        (["publish", "temperatures", "missing.jsonl"], "missing.jsonl cannot be read"),
        (["publish", "temperatures", "--generate", "rain"], "--generate"),
        (["replay", "--partition", "0"], "No such option"),
        (["replay", "temperatures", "0:5-5"], "FROM below TO"),
        (["rejected", "--reason", "rain"], "unknown reason rain; the reasons are tombstone, "),
        (["rejected", "--limit", "-1"], "--limit"),
        (["rejected", "rain"], "Unknown table 'rain'"),
        (["redrive", "--reason", "rain"], "unknown reason rain; the reasons are tombstone, "),
        (["redrive", "rain"], "Unknown table 'rain'"),
        (["restore", "temperatures"], "--version"),
        (["restore", "rain", "--version", "1"], "Unknown table 'rain'. Tables: temperatures, temperatures_rejected, "),
        (["merge", "temperature"], "Unknown table 'temperature'. Did you mean temperatures? Declared tables: "),
        (["topics", "--partitions", "3"], "needs --create"),
        (["query"], "SQL"),
        (["up", "cooker"], "cooker"),
        (["up", "--port", "99999"], "--port"),
    ],
)
def test_wrong_usage_prints_one_line_and_exits_with_2(arguments: list[str], message: str) -> None:
    error = error_line(*arguments, code=main.WRONG_USE)
    assert message in error
    command = f" {arguments[0]}" if arguments[0] in COMMANDS else ""
    assert error.endswith(f" See lakehouse{command} --help.\n")


@pytest.mark.parametrize(("former", "verb"), [("accept-gap", "repair gap"), ("recover-progress", "repair progress")])
def test_a_former_name_of_a_command_is_answered_with_the_line_to_write(former: str, verb: str) -> None:
    assert f"Write lakehouse {verb} in place of {former}." in error_line(former, "temperatures", code=main.WRONG_USE)
    assert "Unknown table" in error_line("merge", former, code=main.WRONG_USE), "it is the name of a table here"


def test_the_error_names_an_invalid_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_SECURITY_PROTOCOL", "NONE")
    assert "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL='NONE'" in error_line("status")


def test_invalid_sql_prints_one_line() -> None:
    assert "nothing" in error_line("query", "SELECT x FROM nothing")


def test_an_unexpected_error_prints_one_line_and_stores_the_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("seven is not eight\nand much more")

    monkeypatch.setattr(query, "open_query", fail)
    error = error_line("query", "SELECT 1")
    assert "ValueError: seven is not eight (" in error
    assert "Run the command again" in error
    (path,) = re.findall(r"is in (\S+)\)", error)
    traceback_file = Path(path)
    assert "and much more" in traceback_file.read_text()
    traceback_file.unlink()


def test_an_interrupted_command_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(query, "open_query", interrupt)
    assert lakehouse_says("query", "SELECT 1") == (130, "", "")


def test_status_reports_a_missing_broker_and_table() -> None:
    output = output_of("status")
    assert "temperatures: not created yet; the first merge creates it (" in output
    assert "lakehouse up" in output


def test_status_as_json_reports_the_same(home: Path) -> None:
    output = read_json_output("status")
    assert output["bootstrap_servers"] is None
    assert [table["table"] for table in output["tables"]] == ["temperatures"]
    assert output["tables"][0]["exists"] is False
    assert output["tables"][0]["problem"]
    assert output["tables"][0]["uri"] == str(home / "tables" / "temperatures")


def test_commands_that_only_read_create_nothing(home: Path) -> None:
    for arguments in (["status"], ["audit"], ["rejected"], ["query", "SELECT 1"], ["doctor"]):
        main.run(arguments)
    assert not home.exists()


def test_audit_of_no_table_finds_nothing_wrong() -> None:
    (output,) = read_json_output("audit")
    assert output["entries"] == []
    assert all(finding["passed"] for finding in output["findings"])


def test_query_as_json_is_a_list_of_objects() -> None:
    rows = read_json_output("query", "SELECT 1 AS one, CAST(2.5 AS DECIMAL(9,6)) AS exact, NULL AS nothing")
    assert rows == [{"one": 1, "exact": "2.500000", "nothing": None}]


def test_json_keeps_decimals_and_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"exact": Decimal("0.1"), "bytes": b"\xff\xfe", "within": [{"bytes": (b"\xfb",)}], "map": {b"\xff": 1}})
    output = json.loads(capsys.readouterr().out)
    assert output == {"exact": "0.1", "bytes": "//4=", "within": [{"bytes": ["+w=="]}], "map": {"/w==": 1}}


def test_numbers_that_json_does_not_have_are_text() -> None:
    text = output_of("query", "--json", "SELECT 'nan'::DOUBLE a, ['inf'::FLOAT, '-inf'] b, 1e300 c")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    assert json.loads(text, parse_constant=refuse) == [{"a": "NaN", "b": ["Infinity", "-Infinity"], "c": 1e300}]


@pytest.mark.parametrize(
    ("value", "text"), [(1e-9, "1e-09"), (-2.5e-7, "-2.5e-07"), (0.0, "0.0"), (21.4000001, "21.4"), (0.002, "0.002")]
)
def test_a_small_number_is_not_rounded_to_zero(value: float, text: str) -> None:
    assert format_value(value) == text


def test_demo_changes_no_data_that_it_did_not_write(home: Path) -> None:
    uri = str(home / "tables" / "temperatures")
    write_deltalake(uri, arrow_table({"mine": [1]}))
    assert "did not write" in error_line("demo")
    assert sorted(path.name for path in home.iterdir()) == ["tables"]


@pytest.mark.parametrize("name", ["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "LAKEHOUSE_TABLES"])
def test_demo_needs_a_confirmation_to_write_outside_its_home(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "elsewhere:9092")
    assert "--yes" in error_line("demo")


def test_up_reports_a_port_in_use() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert f"Port {port} is in use" in error_line("up", "webserver", "--port", str(port))
