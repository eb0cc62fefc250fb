"""``python -m benchmarks [SECTION...]``: run sections; print and write their tables, and the figures in pages."""

import compileall
import sysconfig
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

import lakehouse
from benchmarks import (
    backlog,
    batches,
    decoding,
    deletes,
    engine,
    entered,
    figures,
    files,
    freshness,
    growth,
    history,
    idle,
    keys,
    lasting,
    light,
    partitions,
    picture,
    report,
    rivals,
    sinks,
    store,
)
from benchmarks.turns import adopt_orphans


class Section(StrEnum):
    """The sections of the benchmarks."""

    decoding = "decoding"
    small = "small"
    months = "months"
    large = "large"
    engine = "engine"
    backlog = "backlog"
    five_million = "five-million"
    light = "light"
    idle = "idle"
    rivals = "rivals"
    rivals_small = "rivals-small"
    growth = "growth"
    keys = "keys"
    deletes = "deletes"
    history = "history"
    freshness = "freshness"
    partitions = "partitions"
    lasting = "lasting"
    files = "files"
    files_large = "files-large"
    entered = "entered"
    store = "store"
    sinks = "sinks"


_LATENCIES = {Section.engine, Section.freshness}


def main(
    sections: Annotated[list[Section] | None, typer.Argument(help="Sections to run; default: all.")] = None,
    turns: Annotated[
        int | None, typer.Option(min=3, help="Turns of each contender; default: 20 of latencies, else 5.")
    ] = None,
) -> None:
    """Measure speed as ratios between contenders that take turns within one run. Run nothing else meanwhile."""
    adopt_orphans()
    _compile_packages()
    report.measured_commit()  # of the code that is loaded now
    for section in sections or list(Section):
        typer.echo(_MEASURE[section](section, turns or (20 if section in _LATENCIES else 5)))
    figures.write_pages()


def _compile_packages() -> None:
    """Compile the installed packages, as pip does; otherwise each new process compiles the modules that it loads."""
    for folder in (sysconfig.get_path("purelib"), *lakehouse.__path__):
        compileall.compile_dir(folder, quiet=2)


def _decoding(section: Section, turns: int) -> str:
    return report.write_rows(section, "Decoding 400,000 readings", decoding.cpu_rows(decoding.run(turns)))


def _batches(section: Section, turns: int) -> str:
    if section is Section.small:
        measurements = batches.run(turns, (5, 5_000))
    elif section is Section.months:
        measurements = batches.run(turns, (5_000,), months=12)
    else:  # enough places for one month to hold every row that the batch updates
        measurements = batches.run(turns, (50_000,), places=60) | batches.run(turns, (500_000,), places=340)
    span = "twelve months" if section is Section.months else "one month"
    return report.write(section, f"Records merged into 240,000 rows, within {span}", measurements, "append")


def _engine(section: Section, turns: int) -> str:
    return report.write(section, "A merge as a command, and by the sensor", engine.run(turns), "append 5,000")


def _backlog(section: Section, turns: int) -> str:
    count, turns = (1_000_000, turns) if section is Section.backlog else (5_000_000, 1)
    title = f"A backlog of {count:,} records, each with a key of its own"
    return report.write(section, title, backlog.run(turns, count), "read and decode", count)


def _light(section: Section, turns: int) -> str:
    return report.write(section, "Light things", {"": light.run(turns)}, "python")


def _idle(section: Section, _: int) -> str:
    return report.write_rows(section, "An idle minute of lakehouse up", idle.run())


def _rivals(section: Section, turns: int) -> str:
    rows = 10_000_000 if section is Section.rivals else 1_000_000
    title = f"{rivals.RECORDS:,} records merged into {rows:,} rows, within one month"
    table = report.write(section, title, {f"{rows:,} rows": rivals.run(turns, rows)}, "append")
    picture.draw(section)
    return table


def _growth(section: Section, turns: int) -> str:
    title = f"{growth.RECORDS:,} records with feed, rollup and checks, into a table that grows in days"
    smallest_size = f"{growth.SIZES[0]:,} rows"
    return report.write(section, title, {"": growth.run(turns)}, smallest_size)


def _keys(section: Section, turns: int) -> str:
    results = keys.run(turns)
    title = f"{keys.RECORDS:,} records merged by a key that is text"
    table = report.write(section, title, keys.times(results), f"{keys.SIZES[0]:,} rows")
    sizes = report.write_rows("keys-written", f"What a batch of {keys.RECORDS:,} writes", keys.bytes_written(results))
    return f"{table}\n{sizes}"


def _deletes(section: Section, turns: int) -> str:
    return report.write(section, "What deletes cost a merge", deletes.run(turns), deletes.BASELINE)


def _history(section: Section, turns: int) -> str:
    shortest_history = f"{history.COMMITS[0]:,} commits"
    return report.write(section, "What a long history costs", history.run(turns), shortest_history)


def _freshness(section: Section, turns: int) -> str:
    title = f"Acknowledged to visible, at {freshness.RATE:,} records a second into {freshness.ROWS:,} rows"
    return report.write(section, title, {"": freshness.run(turns)}, f"a batch of {freshness.BATCH:,}")


def _partitions(section: Section, turns: int) -> str:
    title = f"A batch of {partitions.RECORDS:,} records over the partitions of its topic"
    return report.write(section, title, {"": partitions.run(turns)}, "1 partition")


def _measure_lasting(section: Section, _: int) -> str:
    measurements, file_rows = lasting.run()
    table = report.write(section, "Small batches over time", {"": measurements}, f"the first {lasting.COMPARED}")
    return (
        f"{table}\n{report.write_rows('stored', 'What small batches leave of the merged table on the disk', file_rows)}"
    )


def _files(section: Section, turns: int) -> str:
    count, turns = (200, turns) if section is Section.files else (2_000, 1)
    title = f"{count:,} files with {count} MB of JSON lines, into a log table"
    return report.write(section, title, {"": files.run(turns, count)}, "Spark", count * files.LINES)


def _entered(section: Section, _: int) -> str:
    title = "Files of lakehouse that one batch of a plain topic enters"
    return report.write_rows(section, title, entered.rows(entered.run()))


def _store(section: Section, turns: int) -> str:
    return report.write_rows(
        section, "A batch with feed and rollup, in a store that answers after 20 ms", store.run(turns)
    )


def _sinks(section: Section, turns: int) -> str:
    return report.write(section, "Rows brought to PostgreSQL", sinks.run(turns), sinks.BASELINE)


_MEASURE: dict[Section, Callable[[Section, int], str]] = {
    Section.decoding: _decoding,
    Section.small: _batches,
    Section.months: _batches,
    Section.large: _batches,
    Section.engine: _engine,
    Section.backlog: _backlog,
    Section.five_million: _backlog,
    Section.light: _light,
    Section.idle: _idle,
    Section.rivals: _rivals,
    Section.rivals_small: _rivals,
    Section.growth: _growth,
    Section.history: _history,
    Section.keys: _keys,
    Section.deletes: _deletes,
    Section.freshness: _freshness,
    Section.partitions: _partitions,
    Section.lasting: _measure_lasting,
    Section.files: _files,
    Section.files_large: _files,
    Section.entered: _entered,
    Section.store: _store,
    Section.sinks: _sinks,
}


if __name__ == "__main__":
    typer.run(main)
