"""``python -m benchmarks [SECTION...]``: measure sections, show their tables and write them into ``results``."""

from enum import StrEnum
from typing import Annotated

import typer

from benchmarks import decoding, report, small_batches


class Section(StrEnum):
    """What is measured."""

    decoding = "decoding"
    small = "small"
    months = "months"


def main(
    sections: Annotated[list[Section] | None, typer.Argument(help="What to measure; default: all.")] = None,
    turns: Annotated[int, typer.Option(min=3, help="Turns of each contender.")] = 5,
) -> None:
    """Measure how fast it is, as ratios of things that take turns in one run. Nothing else should be running."""
    for section in sections or list(Section):
        typer.echo(_measure(section, turns))


def _measure(section: Section, turns: int) -> str:
    if section is Section.decoding:
        title = "Decoding 400,000 records (no sink)"
        return report.write(section, title, {"": decoding.run(turns)}, "from_json")
    months = 12 if section is Section.months else 1
    title = f"Batches into 240,000 rows, within {months} month{'s' if months > 1 else ''}"
    sizes = (5_000,) if section is Section.months else (5, 5_000, 50_000)
    return report.write(section, title, small_batches.run(turns, sizes, months), "append")


if __name__ == "__main__":
    typer.run(main)
