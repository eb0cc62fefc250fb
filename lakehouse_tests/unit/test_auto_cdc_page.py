"""The page about AUTO CDC: its flows become the declaration that it shows."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.cli import main
from lakehouse.declaration import StreamTable
from lakehouse.declaration.inference.auto_cdc import python_flows, sql_flows
from lakehouse_tests.helpers.pages import read_steps
from lakehouse_tests.helpers.places import ROOT

PAGE = ROOT / "docs" / "how-to" / "auto-cdc.md"
SQL, PYTHON, RECORDS, DECLARATION = (step.text for step in read_steps(PAGE))
ROWS = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]


def without_comments(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if line and not line.startswith(("#", '"""')))


@pytest.mark.parametrize(("file", "flow"), [("pipeline.sql", SQL), ("pipeline.py", PYTHON)])
def test_each_flow_of_the_page_becomes_its_declaration(
    file: str, flow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"lake_{uuid4().hex}"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", folder.name)
    Path(file).write_text(flow, encoding="utf-8")
    Path("users.jsonl").write_text(RECORDS, encoding="utf-8")
    assert main.run(["new-table", "users", "--from-auto-cdc", file, "--from-sample", "users.jsonl"]) == main.DONE
    assert without_comments((folder / "users.py").read_text(encoding="utf-8")) == without_comments(DECLARATION)


def test_the_second_record_of_the_page_is_a_delete_of_its_declaration() -> None:
    names: dict[str, object] = {"__file__": "users.py"}
    exec(compile(DECLARATION, str(PAGE), "exec"), names)  # noqa: S102 - the page's own example
    table = names["users"]
    assert isinstance(table, StreamTable) and table.delete_rule
    assert [table.delete_rule.is_delete(json.loads(line)) for line in RECORDS.splitlines()] == [False, True]
    assert [table.decode(line.encode())["user_id"] for line in RECORDS.splitlines()] == [124, 123]


def test_the_table_of_the_page_has_every_clause_and_every_argument() -> None:
    assert len(ROWS) > 10
    shown_clauses, shown_arguments = " ".join(row[1] for row in ROWS), " ".join(row[2] for row in ROWS)
    assert [clause for clause in map(" ".join, sql_flows._READERS) if f"`{clause}" not in shown_clauses] == []
    arguments = set(python_flows._READERS) - {"track_history_except_column_list"}
    assert [argument for argument in arguments if f"`{argument}" not in shown_arguments] == []
