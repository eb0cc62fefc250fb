"""Write results: a Markdown table for readers, and JSON for programs, both with the commit and the date."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from benchmarks.turns import Measurement

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
Section = Mapping[str, Mapping[str, Measurement]]


def write(name: str, title: str, section: Section, base: str, records: int | None = None) -> str:
    """Write a section as ``results/NAME.json`` and ``.md``; ratios are to the median of ``base``. Return the table.

    If every contender works on ``records`` records, the table also shows records per second and busy cores.
    """
    rounded_section = {
        row: {contender: _round(turns) for contender, turns in contenders.items()}
        for row, contenders in section.items()
    }
    values = {
        row: {
            contender: {"seconds": turns.seconds, "cpu_seconds": turns.cpu} for contender, turns in contenders.items()
        }
        for row, contenders in rounded_section.items()
    }
    return _write(
        name, {"title": title, "ratio_to": base, "figures": values}, _table(title, rounded_section, base, records)
    )


def write_rows(name: str, title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Write rows with the same columns as ``results/NAME.json`` and ``.md``; return the table."""
    lines = [f"## {title}", "", f"| {' | '.join(rows[0])} |", f"|---|{'---:|' * (len(rows[0]) - 1)}"]
    lines += [f"| {' | '.join(map(str, row.values()))} |" for row in rows]
    return _write(name, {"title": title, "rows": rows}, "\n".join(lines) + "\n")


def _write(name: str, content: Mapping[str, object], table: str) -> str:
    RESULTS.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
    origin = {"commit": measured_commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    text = json.dumps({"machine": machine, **origin, **content}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (RESULTS / f"{name}.md").write_text(f"{table}\nCommit {origin['commit']}, {origin['date']}.\n", encoding="utf-8")
    return table


@cache
def measured_commit() -> str:
    """The commit at the first call, with ``+`` if the code differs from it; results do not count."""
    paths = ["lakehouse", "benchmarks", ":!benchmarks/results"]
    return _git("rev-parse", "--short=8", "HEAD") + "+" * bool(_git("status", "--porcelain", "--", *paths))


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _round(measurement: Measurement) -> Measurement:
    """The turns as both files show them, so that their ratios agree."""
    return Measurement(
        [round(value, 3) for value in measurement.seconds], [round(value, 2) for value in measurement.cpu]
    )


def _table(title: str, section: Section, base: str, records: int | None) -> str:
    pace_columns = (" records a second | cores busy |", "---:|---:|") if records else ("", "")
    lines = [
        f"## {title}",
        "",
        f"| | | seconds | from - to | CPU seconds | / {base} |{pace_columns[0]}",
        f"|---|---|---:|---:|---:|---:|{pace_columns[1]}",
    ]
    for row, contenders in section.items():
        for contender, measurement in contenders.items():
            fastest, slowest = measurement.spread
            ratio = measurement.median / contenders[base].median
            cpu = statistics.median(measurement.cpu or [0.0])
            cpu_text = f"{cpu:.2f}" if measurement.cpu else "-"
            time_columns = f"{measurement.median:.2f} | {fastest:.2f} - {slowest:.2f} | {cpu_text} | {ratio:.2f} |"
            pace_text = f" {records / measurement.median:,.0f} | {cpu / measurement.median:.2f} |" if records else ""
            lines.append(f"| {row} | {contender} | {time_columns}{pace_text}")
    return "\n".join(lines) + "\n"
