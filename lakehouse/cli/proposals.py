"""What ``new-table`` proposes a declaration from if there is no topic: the lines of a sample."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import FieldIs, HeaderIs
    from lakehouse.declaration.inference.chosen_records import RecordParts
    from lakehouse.declaration.inference.proposal import Proposal
    from lakehouse.decoding.formats.parser import Parser

AnyRecord = TypeVar("AnyRecord")
_TOPIC = "A file does not show the name of its topic: topic= is the name of the table. Check it."


def propose_for_lines(lines: "Sequence[bytes | None]", where: str | None) -> "Proposal":
    """Propose columns for those lines of a sample that meet a condition, or for all."""
    from lakehouse.declaration.inference.chosen_records import RecordParts
    from lakehouse.declaration.inference.proposal import DEFAULT_FORMAT, propose

    condition = None
    if where:
        parts = [RecordParts(value, {}) for value in lines]
        lines, condition = choose(lines, parts, where, DEFAULT_FORMAT.parser())
    proposal = propose(lines)
    notes = (_TOPIC,) if proposal.columns else ()
    return replace(proposal, where=condition, warnings=(*proposal.warnings, *notes))


def choose(
    records: "Sequence[AnyRecord]", parts: "Sequence[RecordParts]", condition_text: str, parser: "Parser"
) -> "tuple[list[AnyRecord], FieldIs | HeaderIs]":
    """Return the records that meet a condition, and the condition; raises ``LakehouseError`` if none meets it."""
    from lakehouse.declaration.inference.chosen_records import choose_records, read_conditions

    chosen_records, condition = choose_records(records, parts, read_conditions(condition_text), parser)
    if condition is None:
        what = f"None of {len(records):,} records meets {condition_text}"
        raise LakehouseError(what, action="Correct --where, or read more records with --records.")
    return chosen_records, condition


def read_sample(file: str, count: int) -> list[bytes | None]:
    """The lines of a sample that are not empty, at most ``count``."""
    try:
        with Path(file).open("rb") as lines:
            return [line.strip() for line, _ in zip(lines, range(count), strict=False) if line.strip()]
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--from-sample") from None
