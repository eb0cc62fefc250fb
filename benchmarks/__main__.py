"""``python -m benchmarks [SECTION...]``: measure sections, show their tables and write them into ``results``."""

from enum import StrEnum
from typing import Annotated

import typer

from benchmarks import batches, decoding, engine, picture, report, rivals


class Section(StrEnum):
    """What is measured."""

    decoding = "decoding"
    small = "small"
    months = "months"
    large = "large"
    engine = "engine"
    rivals = "rivals"


def main(
    sections: Annotated[list[Section] | None, typer.Argument(help="What to measure; default: all.")] = None,
    turns: Annotated[int, typer.Option(min=3, help="Turns of each contender.")] = 5,
    rows: Annotated[int, typer.Option(min=100_000, help="Rows of the tables of the rivals.")] = 10_000_000,
) -> None:
    """Measure how fast it is, as ratios of things that take turns in one run. Nothing else should be running."""
    for section in sections or list(Section):
        typer.echo(_measure(section, turns, rows))


def _measure(section: Section, turns: int, rows: int) -> str:
    if section is Section.decoding:
        return report.write(section, "Decoding 400,000 records", {"": decoding.run(turns)}, "from_json")
    if section is Section.engine:
        return report.write(section, "A merge as a command, and by the sensor", engine.run(turns), "append 5,000")
    if section is Section.rivals:
        return _rivals(turns, rows)
    if section is Section.small:
        found = batches.run(turns, (5, 5_000))
    elif section is Section.months:
        found = batches.run(turns, (5_000,), months=12)
    else:  # as many rows in the month as the batch updates
        found = batches.run(turns, (50_000,), places=60) | batches.run(turns, (500_000,), places=340)
    within = "twelve months" if section is Section.months else "one month"
    return report.write(section, f"Records merged into 240,000 rows, within {within}", found, "append")


def _rivals(turns: int, rows: int) -> str:
    found = rivals.run(turns, rows)
    title = f"{rivals.RECORDS:,} records merged into {rows:,} rows, within one month"
    (measured,) = found.values()
    picture.draw("rivals", title, {who: each.median for who, each in measured.items()})
    return report.write("rivals", title, found, "append")


if __name__ == "__main__":
    typer.run(main)
