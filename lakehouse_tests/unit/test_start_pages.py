"""The pages of the start show what their commands print. The steps that need a broker run at full scale."""

import sys
from itertools import takewhile
from pathlib import Path

import pytest

from lakehouse_tests.helpers.commands import lakehouse_says
from lakehouse_tests.helpers.pages import START, matches, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment, without_make

OUTPUT = """
orders: version 1, 3 rows (/srv/lake/.lakehouse/tables/orders)
Broker: 127.0.0.1:24117.
 partition   progress
 ────────────────────
         0         12
Last commit: version 1, batch 1, 2026-01-05 09:12:41 UTC.
"""
SAME = {
    "as printed": OUTPUT,
    "another time": OUTPUT.replace("05 09:12", "14 23:59"),
    "another port": OUTPUT.replace("24117", "9092"),
    "another folder": OUTPUT.replace("/srv/lake/", "/home/ada/my-lake/"),
    "a narrower table": OUTPUT.replace("─────", "──").replace("       ", " "),
    "without the table": "orders: version 1, 3 rows ...\nLast commit: version 1, batch 1, 2026-01-05 09:12:41 UTC.",
    "the start of a line": "orders: version 1, ...",
    "nothing left out": OUTPUT.replace("Broker", "...\nBroker") + "...",
    "the end of a line": "...\nLast commit: ... 2026-01-05 09:12:41 UTC.",
}
DIFFERENT = {
    "another number": OUTPUT.replace("12\n", "13\n"),
    "another table": OUTPUT.replace("tables/orders", "tables/prices"),
    "a line more": OUTPUT + "Lag: 0 offsets.",
    "the end is missing": "orders: version 1, 3 rows (/srv/lake/.lakehouse/tables/orders)",
    "the start is missing": "Broker: 127.0.0.1:24117.\n...",
    "another order": "...\n partition ...\nBroker: ...",
    "the end of a number": "...\n2 Last commit: ...",
}


@pytest.mark.parametrize("name", SAME)
def test_an_output_may_differ_in_what_no_two_runs_share(name: str) -> None:
    assert matches(SAME[name], OUTPUT)


@pytest.mark.parametrize("name", DIFFERENT)
def test_any_other_difference_of_an_output_is_detected(name: str) -> None:
    assert not matches(DIFFERENT[name], OUTPUT)


def test_an_output_belongs_to_the_commands_before_it_and_may_be_one_of_several(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nls\n```\nIt prints\n```text\na\n```\nor\n```text\nb\n```\n```python\nx = 1\n```\n")
    listing, python = read_steps(page)
    assert [listing.shows(output) for output in ("a", "b", "c")] == [True, True, False]
    assert python.outputs == () and python.shows("anything")


def test_what_make_runs_is_read_from_the_makefile() -> None:
    assert without_make("make demo\n") == "lakehouse demo temperatures\n"
    assert without_make("make up\n") == "lakehouse up\n"


@pytest.mark.parametrize("name", ["install", "demo", "your-topic"])
def test_a_page_shows_short_outputs_of_commands(name: str) -> None:
    outputs = {step: step.outputs for step in read_steps(START / f"{name}.md") if step.outputs}
    assert outputs
    assert {step.language for step in outputs} == {"sh"}
    lengths = [len(output.splitlines()) for step_outputs in outputs.values() for output in step_outputs]
    assert max(lengths) <= 12


def test_the_first_steps_of_a_new_topic_print_what_the_page_shows(tmp_path: Path) -> None:
    """Those before the declaration is edited: they need neither a broker nor Spark."""
    steps = [*takewhile(lambda step: step.language == "sh", read_steps(START / "your-topic.md"))]
    assert [len(step.outputs) for step in steps] == [1, 1]
    page = TypedPage(tmp_path, user_environment(Path(sys.executable).parent, PYTHONPATH=str(ROOT)))
    assert page.follow(steps) == []


def test_doctor_prints_what_the_page_about_installation_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (doctor_step,) = [step for step in read_steps(START / "install.md") if step.outputs]
    assert doctor_step.text == "lakehouse doctor\n"
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", "lakehouse.examples.tables")
    output = lakehouse_says("doctor").out
    assert doctor_step.shows(output), output
