"""Figures written down: a table for people, JSON for everything else."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.turns import Measured

RESULTS = Path(__file__).parent / "results"
Section = Mapping[str, Mapping[str, Measured]]


def write(name: str, title: str, section: Section, base: str, records: int | None = None) -> str:
    """Write a section as ``results/NAME.json`` and ``.md``; ratios are to the median of ``base``. Return the table.

    Where every contender works on so many ``records``, it also says how many a second, and how many cores were busy.
    """
    figures = {
        row: {who: _rounded_times(measured) for who, measured in found.items()} for row, found in section.items()
    }
    return _write(name, {"title": title, "ratio_to": base, "figures": figures}, _table(title, section, base, records))


def write_rows(name: str, title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Write rows of equal columns as ``results/NAME.json`` and ``.md``; return the table."""
    lines = [f"## {title}", "", f"| {' | '.join(rows[0])} |", f"|---|{'---:|' * (len(rows[0]) - 1)}"]
    lines += [f"| {' | '.join(map(str, row.values()))} |" for row in rows]
    return _write(name, {"title": title, "rows": rows}, "\n".join(lines) + "\n")


def _write(name: str, content: Mapping[str, object], table: str) -> str:
    RESULTS.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
    text = json.dumps({"machine": machine, **content}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (RESULTS / f"{name}.md").write_text(table, encoding="utf-8")
    return table


def _rounded_times(measured: Measured) -> dict[str, object]:
    return {
        "seconds": [round(each, 3) for each in measured.seconds],
        "cpu_seconds": [round(each, 2) for each in measured.cpu],
    }


def _table(title: str, section: Section, base: str, records: int | None) -> str:
    pace = (" records a second | cores busy |", "---:|---:|") if records else ("", "")
    lines = [
        f"## {title}",
        "",
        f"| | | seconds | from - to | CPU seconds | / {base} |{pace[0]}",
        f"|---|---|---:|---:|---:|---:|{pace[1]}",
    ]
    for row, found in section.items():
        for who, measured in found.items():
            least, most = measured.spread
            ratio = measured.median / found[base].median
            cpu = statistics.median(measured.cpu or [0.0])
            used = f"{cpu:.2f}" if measured.cpu else "-"
            figures = f"{measured.median:.2f} | {least:.2f} - {most:.2f} | {used} | {ratio:.2f} |"
            busy = f" {records / measured.median:,.0f} | {cpu / measured.median:.2f} |" if records else ""
            lines.append(f"| {row} | {who} | {figures}{busy}")
    return "\n".join(lines) + "\n"
