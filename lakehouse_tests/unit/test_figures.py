"""Every figure of speed or size in README and docs follows from a result, or has the day of its measurement."""

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from benchmarks import figures, picture, report
from benchmarks.figures import TABLE, find_figures, find_text, listed_texts
from benchmarks.report import RESULTS
from benchmarks.turns import Measurement
from lakehouse_tests.helpers.places import ROOT

PAGES = ("README.md", "docs/explanation/performance.md", "docs/how-to/deploy.md")
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
NUMBER = r"\b(?:\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten)\s+"
TIME = re.compile(
    rf"{NUMBER}(?:s|ms|seconds?|minutes?)\b"
    r"|\b(?:half|quarter\s+of)\s+a\s+second\b|\b\S+\s+of\s+the\s+(?:time|seconds)\b"
    r"|\b(?:\S+\s+times|twice|half)\s+(?:as\s+(?:long|fast)|faster|slower|the\s+time)\b"
)
SIZE = re.compile(rf"{NUMBER}(?:[kMG]i?B\b|%|records\s+(?:a|per)\s+second|CPU)")
CELLS = re.compile(r"(?<=[^\n] )\| (?=[\d.,() s]*\d)[\d.,() s]+(?= \|)")
ORIGIN = re.compile(r"[0-9a-f]{8}\+? 20\d\d-\d\d-\d\d")
OF_THEN = re.compile(r"\bseen\b|\bat\s+the\s+time\b|\b20\d\d-\d\d-\d\d\b", re.IGNORECASE)


def read_page(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def listed_spans(page: str) -> list[tuple[int, int]]:
    """Where a page has the figures of the table, and the texts without a result."""
    results, text = figures.read_results(), read_page(page)
    measured = [find_figures(text, row, results) for name, row in listed_texts("measured") if name == page]
    stated = [find_text(text, row).span() for name, row in listed_texts("stated") if name == page]
    return [figure.span for row in measured for figure in row] + stated


def unlisted_figures(text: str, spans: list[tuple[int, int]]) -> Iterator[str]:
    """Yield the line and the text of each figure that overlaps none of the places."""
    for match in (match for pattern in (TIME, SIZE, CELLS) for match in pattern.finditer(text)):
        for number in re.finditer(r"\d[\d.,]*|^\D+$", match[0]):
            first, last = (match.start() + place for place in number.span())
            if not any(start < last and first < end for start, end in spans):
                yield f"{text.count(chr(10), 0, first) + 1}: {match[0]!r} is not in benchmarks/figures.toml"


def undated_figures(text: str) -> list[str]:
    """The figures of time that a page of a decision gives as a reason, in a paragraph that names no day."""
    paragraphs = re.split(r"\*\*(?:Why|Refused)\.\*\*", text, maxsplit=1)[-1].split("\n\n")
    return [match[0] for part in paragraphs if not OF_THEN.search(part) for match in TIME.finditer(part)]


def test_every_listed_figure_is_on_its_page_as_it_was_measured() -> None:
    problems = [*figures.list_problems()]
    assert not problems, "\n".join([*problems, "correct the text, or run: python -m benchmarks.figures"])


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_of_a_page_is_listed(page: str) -> None:
    problems = [f"{page}:{problem}" for problem in unlisted_figures(read_page(page), listed_spans(page))]
    assert not problems, "\n".join(problems)


def test_every_figure_without_a_result_has_a_day_or_a_meaning() -> None:
    assert [row for row in TABLE["stated"] if not (isinstance(row.get("since"), date) or row.get("meaning"))] == []
    assert [row for row in TABLE["stated"] if row["page"] == "README.md" and "since" in row] == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_figure_of_time_in_a_decision_says_when_it_was_true(page: Path) -> None:
    assert undated_figures(page.read_text(encoding="utf-8")) == [], "write the day, 'at the time' or 'seen'"


def test_every_result_names_its_commit_and_its_day() -> None:
    contents = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob("*.json")}
    origins = {name: f"{content.get('commit')} {content.get('date')}" for name, content in contents.items()}
    unnamed_results = {name for name, origin in origins.items() if not ORIGIN.fullmatch(origin)}
    assert unnamed_results == {*TABLE["without_commit"]}, "correct without_commit in benchmarks/figures.toml"


def test_a_result_names_the_commit_and_whether_the_code_differs_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "lakehouse" / "a.py"
    for folder in (code.parent, tmp_path / "benchmarks" / "results"):
        folder.mkdir(parents=True)
    code.touch()
    for arguments in ("init --quiet", "add .", "-c user.name=a -c user.email=a@b.c commit --quiet --message a"):
        subprocess.run(["git", "-C", tmp_path, *arguments.split()], check=True)
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "benchmarks" / "results")

    def write_result() -> str:
        report.measured_commit.cache_clear()
        report.write("small", "Small", {"5": {"append": Measurement([0.12345], [1])}}, "append")
        content = json.loads((report.RESULTS / "small.json").read_text(encoding="utf-8"))
        return f"{content['commit']} {content['date']}"

    assert ORIGIN.fullmatch(write_result())
    assert "+" not in write_result()  # the first result is a change, but not of the code
    code.write_text("1", encoding="utf-8")
    assert "+ " in write_result()
    report.measured_commit.cache_clear()


def test_the_picture_of_the_readme_has_the_measured_seconds() -> None:
    content = json.loads((RESULTS / "rivals.json").read_text(encoding="utf-8"))
    assert picture.render(content) == read_page("docs/pictures/rivals.svg")


CONTENDERS = {
    "append": {"seconds": [0.5, 0.4, 0.6], "cpu_seconds": [1.0]},
    "merge": {"seconds": [1.25, 9], "cpu_seconds": [2.0]},
}
RESULT = figures.Names(
    small=figures.name_values({"figures": {"5": CONTENDERS, "5,000": CONTENDERS}}),
    months=figures.name_values({"figures": {"any": CONTENDERS}}),
    idle=figures.name_values({"rows": [{"": "all: 1", "MB": 2634, "seconds": "0.25"}, {"": 2}, {"": 2}]}),
)


@pytest.mark.parametrize(
    ("origin", "value"),
    [
        ("{small[5][append]}", "0.50"),
        ("{small[5,000][append].cpu:.1f}", "1.0"),
        ("{months[merge].seconds:.3f}", "5.125"),
        ("{months[merge].to[append]:.1f}", "10.2"),
        ("{months[merge].count}", "2"),
        ("{months[append].pace[1000]:,.0f}", "2,000"),
        ("{idle[all: 1][MB]:,}", "2,634"),
        ("{idle[all: 1][seconds]:.1f}", "0.2"),
    ],
)
def test_a_figure_follows_from_a_result(origin: str, value: str) -> None:
    (figure,) = find_figures("It takes\n7.5, or more.", f"It takes {origin}, or", RESULT)
    assert (figure.span, figure.page_value, figure.result_value) == ((9, 12), "7.5", value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("takes {months[append]} s", "2 times, not once"),
        ("lasts {months[append]} s", "0 times, not once"),
        ("The {months[derive]} s", "no 'derive'"),
        ("The {years[append]} s", "no 'years'"),
        ("The {idle[2][MB]} s", "no '2'"),
    ],
)
def test_a_text_or_a_result_that_is_missing_is_named(text: str, problem: str) -> None:
    with pytest.raises(LookupError, match=problem):
        find_figures("The 1 s takes 2 s and takes 3 s.", text, RESULT)


def test_wrong_figures_are_named_and_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("Seconds:\n| append | 12 | 1.0 |\nAbout 5 MB.\n", encoding="utf-8")
    row = {"page": page.name, "texts": ["| * | {months[*]} | {months[*].cpu:.1f} |"], "each": ["append"]}
    table = {"measured": [row], "stated": [{"page": page.name, "texts": ["About 5 MB", "About 6 MB"]}]}
    for name, value in {"ROOT": tmp_path, "TABLE": table, "read_results": lambda: RESULT}.items():
        monkeypatch.setattr(figures, name, value)
    missing_text = "page.md: this text is on the page 0 times, not once: About 6 MB"
    assert [*figures.list_problems()] == [
        "page.md:2: 12 should be 0.50, which is {months[append]}",
        missing_text,
    ]
    figures.write_pages()
    assert page.read_text(encoding="utf-8") == "Seconds:\n| append | 0.50 | 1.0 |\nAbout 5 MB.\n"
    assert [*figures.list_problems()] == [missing_text]


@pytest.mark.parametrize(
    "text",
    [
        "after 7 seconds", "in 20 ms", "2.3 s,", "two seconds", "half a second", "0.9 of the\ntime",
        "a fifth of the time", "2.8 times as long", "ten times faster", "twice as fast", "730 MB", "1.5 GiB",
        "50 % of it", "5,000 records a second", "| a | 0.99 |", "| a | b | 1.09 (2.5) |",
    ],
)  # fmt: skip
def test_a_figure_without_a_row_is_detected(text: str) -> None:
    assert [*unlisted_figures(f"x\n{text}\n", [])] != []


def test_numbers_that_are_no_figures_are_allowed() -> None:
    text = "Python 3.11, 5,000 records into 32 files\n| 5,000 | Delta 4.4 | 1,000 rows |\n127.0.0.1:3000; 10.5 months\n"
    assert [*unlisted_figures(text, [])] == []


def test_a_decision_without_a_day_is_detected() -> None:
    text = "**Decision.** Within 5 s.\n\n**Why.** It takes 3 s.\n\nIt took 4 s (2026-11-29)."
    assert undated_figures(text) == ["3 s"]
