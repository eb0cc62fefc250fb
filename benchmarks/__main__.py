"""``python -m benchmarks [SECTION...]``: measure sections, show their tables and write them into ``results``."""

import compileall
import sysconfig
from enum import StrEnum
from typing import Annotated

import typer

import lakehouse
from benchmarks import batches, decoding, light, report


class Section(StrEnum):
    """What is measured."""

    decoding = "decoding"
    small = "small"
    months = "months"
    large = "large"
    light = "light"


def main(
    sections: Annotated[list[Section] | None, typer.Argument(help="What to measure; default: all.")] = None,
    turns: Annotated[int, typer.Option(min=3, help="Turns of each contender.")] = 5,
) -> None:
    """Measure how fast it is, as ratios of things that take turns in one run. Nothing else should be running."""
    _compile_packages()
    for section in sections or list(Section):
        typer.echo(_measure(section, turns))


def _compile_packages() -> None:
    """Compile what is installed, as pip does: else each process that starts compiles whatever it loads."""
    for folder in (sysconfig.get_path("purelib"), *lakehouse.__path__):
        compileall.compile_dir(folder, quiet=2)


def _measure(section: Section, turns: int) -> str:
    if section is Section.decoding:
        return report.write(section, "Decoding 400,000 records", {"": decoding.run(turns)}, "from_json")
    if section is Section.light:
        told = report.write(section, "Light things", {"": light.run(turns)}, "python")
        return f"{told}\n{report.write_rows('idle', 'An idle minute of lakehouse up', light.idle_stack())}"
    if section is Section.small:
        found = batches.run(turns, (5, 5_000))
    elif section is Section.months:
        found = batches.run(turns, (5_000,), months=12)
    else:  # as many rows in the month as the batch updates
        found = batches.run(turns, (50_000,), places=60) | batches.run(turns, (500_000,), places=340)
    within = "twelve months" if section is Section.months else "one month"
    return report.write(section, f"Records merged into 240,000 rows, within {within}", found, "append")


if __name__ == "__main__":
    typer.run(main)
