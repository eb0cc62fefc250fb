"""What commands print: numbers that can be copied back, limits of rows, ranges in one line."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger

from lakehouse import discovery
from lakehouse.cli import main, merge_verbs
from lakehouse.cli.facts import ranges_text
from lakehouse.cli.output import count_text, format_value, print_partitions
from lakehouse.cli.table_session import _silence_query_logs
from lakehouse.declaration import StreamTable
from lakehouse.errors import SetupError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.positions import Range
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import failure_of, lakehouse_says, misuse_of, output_of, read_json_output


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))


def test_numbers_of_a_result_can_be_copied_back() -> None:
    output = output_of("query", "SELECT 1234567 AS id, 0.1::DOUBLE + 0.2::DOUBLE AS third")
    assert "1234567" in output and "0.30000000000000004" in output


def test_one_row_is_counted_in_the_singular() -> None:
    assert output_of("query", "SELECT 1 AS one").splitlines()[-1] == "1 row"
    assert [count_text(number, "row") for number in (0, 1, 2, 1000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]


def test_a_result_shows_a_thousand_rows_and_reports_that_there_are_more() -> None:
    result = lakehouse_says("query", "SELECT range AS id FROM range(1001)")
    assert result.out.splitlines()[-1] == "1,000 rows"
    assert result.err == "Only the first 1,000 rows are shown; --limit 0 shows all.\n"
    result = lakehouse_says("query", "SELECT range AS id FROM range(1001)", "--limit", "0")
    assert (result.out.splitlines()[-1], result.err) == ("1,001 rows", "")
    assert lakehouse_says("query", "SELECT range AS id FROM range(1000)").err == ""


def test_bytes_of_a_result_are_base64() -> None:
    sql = "SELECT '\\xFF\\x00'::BLOB AS photo, [''::BLOB] AS list"
    assert list(csv.reader(io.StringIO(output_of("query", "--csv", sql))))[1:] == [["/wA=", '[""]']]
    assert read_json_output("query", sql) == [{"photo": "/wA=", "list": [""]}]
    assert "/wA=" in output_of("query", sql)


def test_many_ranges_of_a_commit_are_shown_as_a_sum() -> None:
    assert ranges_text({0: [0, 500], 1: [3, 4]}) == "0:0-500 1:3-4"
    assert ranges_text({partition: [0, 10] for partition in range(200)}) == "2,000 offsets of 200 partitions"


def test_of_many_partitions_those_with_the_greatest_lag_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(partition, None if partition == 7 else partition % 1_000) for partition in range(3_000)]
    print_partitions(["partition", "lag"], rows)
    output = capsys.readouterr().out
    assert len(output.splitlines()) < 30
    assert "2,999  999" in output.replace("   ", "  ")
    assert "These are 20 of 3,000 partitions, with the greatest lag." in output
    print_partitions(["partition", "lag"], rows[:20])
    assert "These are" not in capsys.readouterr().out


def test_numbers_of_a_table_have_separators_unless_they_are_exact() -> None:
    assert (format_value(1234567), format_value(1234567, exact=True)) == ("1,234,567", "1234567")


def test_the_version_is_shown() -> None:
    assert output_of("--version").startswith("lakehouse 0.")


def test_a_shell_can_complete_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_LAKEHOUSE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "lakehouse rest")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        main.app(prog_name="lakehouse")
    assert capsys.readouterr().out.split() == ["restore"]


@pytest.mark.parametrize(
    "wrong_range",
    [
        "0:500-0",
        "0:5-5",
        "0-500",
        "a:0-5",
        "0:0-",
        "0:0-\u0665",
        f"0:0-{'9' * 5000}",
        "0:0-9223372036854775808",
        "2147483648:0-5",
    ],
)
def test_an_invalid_range_is_refused_with_the_expected_form(wrong_range: str) -> None:
    for table_arguments in (["temperatures"], []) if wrong_range[0].isdecimal() else (["temperatures"],):
        error = misuse_of("replay", *table_arguments, wrong_range)
        assert "PARTITION:FROM-TO" in error
        assert error.endswith("See lakehouse replay --help.")


def test_a_range_without_a_table_is_for_the_only_declared_table(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def yield_table(_: Settings, table: StreamTable | None = None, **__: bool) -> Iterator[StreamTable | None]:
        yield table

    def stop(table: StreamTable, ranges: list[Range]) -> None:
        raise SetupError(f"{table.name} {ranges}")

    monkeypatch.setattr(merge_verbs, "broker", yield_table)
    monkeypatch.setattr(merge_verbs, "table_context", yield_table)
    monkeypatch.setattr("lakehouse.ingest.replay.replay", stop)
    monkeypatch.setattr(discovery, "declared_tables", lambda _: (temperatures,))
    error = failure_of("replay", "0:0-500", "1:20-40")
    assert f"temperatures {[Range(0, 0, 500), Range(1, 20, 40)]}" in error
    assert "FROM below TO" in misuse_of("replay", "0:500-0")


def test_a_range_without_a_table_is_refused_if_several_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = (temperatures, replace(temperatures, name="others"))
    monkeypatch.setattr(discovery, "declared_tables", lambda _: tables)
    error = misuse_of("replay", "0:0-500")
    assert "Several tables are declared; name one before the range 0:0-500: temperatures, others" in error


def test_a_refused_statement_prints_no_json_next_to_its_error(capfd: pytest.CaptureFixture[str]) -> None:
    _silence_query_logs()
    PySparkLogger.getLogger("SQLQueryContextLogger").error("a trace of Java", errorClass="UNRESOLVED_COLUMN")
    assert capfd.readouterr() == ("", "")
