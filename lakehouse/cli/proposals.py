"""What ``new-table`` proposes a declaration from, other than topics: a sample or a flow of AUTO CDC."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import typer

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.declaration import FieldIs, HeaderIs
    from lakehouse.declaration.inference.auto_cdc.flow import AutoCdcFlow
    from lakehouse.declaration.inference.chosen_records import RecordParts
    from lakehouse.declaration.inference.proposal import Proposal
    from lakehouse.decoding.formats.parser import Parser

AnyRecord = TypeVar("AnyRecord")
_TOPIC = "A file does not show the name of its topic: topic= is the name of the table. Check it."


class Wish(NamedTuple):
    """What a table is proposed for: a flow of AUTO CDC, the records that meet a condition, or all records."""

    flow: "AutoCdcFlow | None" = None
    where: str | None = None


def propose_without_topic(values: "Sequence[bytes | None] | None", topic: str, wish: Wish) -> "Proposal":
    """Propose columns for the lines of a sample; those that the flow names if there is no sample."""
    from lakehouse.declaration.inference.auto_cdc.proposed_flow import propose_flow, propose_names
    from lakehouse.declaration.inference.chosen_records import RecordParts
    from lakehouse.declaration.inference.proposal import DEFAULT_FORMAT, propose

    if flow := wish.flow:
        return propose_names(flow, topic) if values is None else propose_flow(flow, topic, values)
    lines = values or []
    condition = None
    if wish.where:
        parts = [RecordParts(value, {}) for value in lines]
        lines, condition = choose(lines, parts, wish.where, DEFAULT_FORMAT.parser())
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


def read_flow(file: str, table: str) -> "AutoCdcFlow":
    """The flow of a file for a table; raises ``LakehouseError`` if none can be chosen or translated."""
    from lakehouse.declaration.inference.auto_cdc.select import read_flow as select_flow

    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"{file} cannot be read: {reason}", param_hint="--from-auto-cdc") from None
    return select_flow(text, file, table)


def topic_of(flow: "AutoCdcFlow") -> str:
    """The topic that the source of a flow may be named after; raises ``LakehouseError`` if no topic has such a name."""
    from lakehouse.declaration.rules.topic_rules import TOPIC

    if not TOPIC.fullmatch(flow.topic):
        what = f"The source of the flow does not name a topic: {flow.source or 'its name is computed'}"
        raise LakehouseError(what, where=flow.place, action="Name the topic: --from-topic TOPIC.")
    return flow.topic


def read_sample(file: str, count: int) -> list[bytes | None]:
    """The lines of a sample that are not empty, at most ``count``."""
    try:
        with Path(file).open("rb") as lines:
            return [line.strip() for line, _ in zip(lines, range(count), strict=False) if line.strip()]
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="--from-sample") from None
