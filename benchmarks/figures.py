"""The figures that README and docs state: compare them with the results, and write them again.

``figures.toml`` has the texts around the figures. In place of each figure is how it follows from a result, in the
form of ``str.format``: ``{rivals[foreachBatch].to[lakehouse]:.1f}`` names the file, the contender, and the ratio of
its seconds to those of another one. A file with several rows needs the name of the row in front of the contender:
``{small[5][merge].cpu:.2f}``. ``pace[5]`` is 5 divided by the seconds: of a batch of 5,000 records, thousands in a
second. Without a name behind it, the contender shows its seconds with two decimals. In a result that is rows, the
names are the first cell and the column: ``{idle[1 table: all][MB]:,}``.

``python -m benchmarks.figures`` writes the figures into the pages, as ``make bench`` does. A second call does nothing.
"""

import json
import math
import re
import statistics
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from benchmarks.report import RESULTS, ROOT

TABLE = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))
_NUMBER = r"([\d.,]*\d)"
_parse = Formatter().parse


class Names(dict[str, Any]):
    """Values by name; a name of digits arrives as a number."""

    def __missing__(self, name: object) -> Any:
        if isinstance(name, int):
            return self[str(name)]
        raise KeyError(name)


@dataclass(frozen=True)
class Pace:
    """How often in a second a number of records is worked on."""

    seconds: float

    def __getitem__(self, records: int) -> float:
        return records / self.seconds


@dataclass(frozen=True)
class Turns:
    """The turns of one contender: medians, their number, and the ratios to each contender of the row."""

    seconds: float
    cpu: float
    count: int
    to: Names
    pace: Pace

    def __format__(self, form: str) -> str:
        return format(self.seconds, form or ".2f")


class Figure(NamedTuple):
    """A figure on a page: its place in the text, what the page shows, what the results show, and how it follows."""

    span: tuple[int, int]
    page_value: str
    result_value: str
    origin: str


def read_results() -> Names:
    """Read all results, by the name of their file."""
    contents = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in RESULTS.glob("*.json")}
    return Names({name: name_values(content) for name, content in contents.items()})


def name_values(content: Mapping[str, Any]) -> Names:
    """The values of a result by their names. Rows that have the same first cell have no name."""
    if "rows" in content:
        labels = [str(next(iter(row.values()))) for row in content["rows"]]
        rows = zip(labels, content["rows"], strict=True)
        return Names({label: Names(row) for label, row in rows if labels.count(label) == 1})
    values = {label: _summarize(row) for label, row in content["figures"].items()}
    return Names(values) if len(values) > 1 else next(iter(values.values()))


def _summarize(row: Mapping[str, Mapping[str, list[float]]]) -> Names:
    medians, summaries = {name: statistics.median(turns["seconds"]) for name, turns in row.items()}, Names()
    for name, turns in row.items():
        seconds, cpu = medians[name], statistics.median(turns["cpu_seconds"] or [math.nan])
        ratios = Names({other_name: seconds / median for other_name, median in medians.items() if median})
        summaries[name] = Turns(seconds, cpu, len(turns["seconds"]), ratios, Pace(seconds))
    return summaries


def listed_texts(kind: str) -> Iterator[tuple[str, str]]:
    """Yield the page and the text of each row of a kind; a text with ``*`` once for ``each`` name."""
    for row in TABLE[kind]:
        for text in row["texts"]:
            yield from ((row["page"], text.replace("*", name)) for name in row.get("each", ["*"]))


def find_text(page_text: str, text: str, number: str = "") -> re.Match[str]:
    """Find a text, which is on the page once; its lines may break anywhere. Raise ``LookupError`` if it is not."""
    literals = [(re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(literal)), field) for literal, field, *_ in _parse(text)]
    matches = [*re.finditer("".join(literal + number * bool(field) for literal, field in literals), page_text)]
    if len(matches) != 1:
        raise LookupError(f"this text is on the page {len(matches)} times, not once: {text}")
    return matches[0]


def find_figures(page_text: str, text: str, results: Names) -> list[Figure]:
    """Find the figures of a text on its page. Raise ``LookupError`` if the text or a result is missing."""
    match = find_text(page_text, text, _NUMBER)
    origins = [(field, form or "") for _, field, form, _ in _parse(text) if field]
    return [
        Figure(match.span(index), match[index], _show(field, form, results), f"{{{field}:{form}}}".replace(":}", "}"))
        for index, (field, form) in enumerate(origins, 1)
    ]


def _show(field: str, form: str, results: Names) -> str:
    try:
        value, _ = Formatter().get_field(field, (), results)
    except KeyError as error:
        raise LookupError(f"benchmarks/results has no {error}: {field}") from error
    return format(float(value) if isinstance(value, str) else value, form)


def list_problems() -> Iterator[str]:
    """Yield each figure that differs from its result, and each text that is not on its page, with the line."""
    results = read_results()
    for page, text in (*listed_texts("measured"), *listed_texts("stated")):
        page_text = (ROOT / page).read_text(encoding="utf-8")
        try:
            figures = find_figures(page_text, text, results)
        except LookupError as error:
            yield f"{page}: {error}"
            continue
        for figure in figures:
            if figure.page_value != figure.result_value:
                line = page_text.count("\n", 0, figure.span[0]) + 1
                yield f"{page}:{line}: {figure.page_value} should be {figure.result_value}, which is {figure.origin}"


def write_pages() -> None:
    """Write the figures of the results into the pages. Raise ``LookupError`` if a text or a result is missing."""
    results = read_results()
    for page, text in listed_texts("measured"):
        path = ROOT / page
        page_text = path.read_text(encoding="utf-8")
        for figure in reversed(find_figures(page_text, text, results)):
            start, end = figure.span
            page_text = page_text[:start] + figure.result_value + page_text[end:]
        path.write_text(page_text, encoding="utf-8")


if __name__ == "__main__":
    write_pages()
