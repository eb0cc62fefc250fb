"""Verbs for records that may not enter: ``rejected`` lists them, ``redrive`` decodes them again."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import JsonOption, TableArgument, TablesArgument, chosen_table, chosen_tables, examples
from lakehouse.cli.facts import record_facts, seconds
from lakehouse.cli.merge_verbs import show_outcomes
from lakehouse.cli.output import print_json, print_table, say
from lakehouse.cli.phases import busy
from lakehouse.cli.table_session import load_settings, registry, table_context
from lakehouse.errors import printable

if TYPE_CHECKING:
    from lakehouse.operations.rejections import Reason, Sample

verbs = typer.Typer()


def _known_reason(name: str | None) -> str | None:
    from lakehouse.decoding.formats import KNOWN_REASONS
    from lakehouse.discovery import tables_there

    if name is None or name in KNOWN_REASONS:
        return name
    known = dict.fromkeys(KNOWN_REASONS)
    known |= {reason: None for table in tables_there(load_settings()) for reason in table.format.reasons}
    if name not in known:
        raise typer.BadParameter(f"no such reason; one of {', '.join(known)}")
    return name


ReasonOption = Annotated[
    str | None,
    typer.Option(metavar="REASON", callback=_known_reason, help="Only the records rejected for this reason."),
]


@verbs.command(epilog=examples("lakehouse rejected", "lakehouse rejected temperatures --reason late --limit 20"))
def rejected(
    table: TablesArgument = None,
    reason: ReasonOption = None,
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show so many records of each reason, the newest.")
    ] = 3,
    json: JsonOption = False,
) -> None:
    """Show which records may not enter a table: how many for each reason, and samples.

    Records that were resolved since are left out. The whole bytes are in the table of rejected records.
    """
    from lakehouse.operations.open_rejections import count_rejected
    from lakehouse.operations.rejections import list_rejected
    from lakehouse.storage.table_context import merged_ledger

    settings = load_settings()
    found = []
    for each in chosen_tables(settings, table):
        reasons = list_rejected(settings, each, reason, limit)
        counted = count_rejected(settings, each, merged_ledger(settings, each))
        found.append({"resolved": counted.resolved if counted else None, **_facts(each.name, reasons)})
    if json:
        return print_json(found)
    for facts in found:
        _print_reasons(facts)
    return None


def _facts(table: str, reasons: "list[Reason]") -> dict[str, Any]:
    return {
        "table": table,
        "rejected": sum(each.count for each in reasons),
        "reasons": [
            {
                "reason": printable(each.reason),
                "count": each.count,
                "samples": [_sample_facts(sample) for sample in each.samples],
            }
            for each in reasons
        ],
    }


def _sample_facts(sample: "Sample") -> dict[str, Any]:
    from lakehouse.ledger.positions import words_of

    word = words_of(sample.source).position
    return {**record_facts(sample, word, sample.position), "detail": printable(sample.detail)}


def _in_words(sample: dict[str, Any]) -> dict[str, Any]:
    return sample | {"time": seconds(sample["time"]) if sample["time"] else None}


def _print_reasons(facts: dict[str, Any]) -> None:
    resolved = f" Resolved since they were: {facts['resolved']:,}." if facts["resolved"] else ""
    if not facts["reasons"]:
        return say(f"{facts['table']}: no record is rejected.{resolved}")
    say(f"{facts['table']}: {facts['rejected']:,} records are rejected.{resolved}")
    print_table(["reason", "records"], [(each["reason"], each["count"]) for each in facts["reasons"]])
    for each in facts["reasons"]:
        rows = [[*_in_words(sample).values()] for sample in each["samples"]]
        if rows:
            print_table([*each["samples"][0]], rows, title=each["reason"])
    return say(f"Decode them again, after the declaration was corrected: lakehouse redrive {facts['table']}")


@verbs.command(
    epilog=examples("lakehouse redrive temperatures", "lakehouse redrive temperatures --reason out_of_range")
)
def redrive(table: TableArgument = None, reason: ReasonOption = None, json: JsonOption = False) -> None:
    """Decode rejected records again with today's declaration, and merge those that pass.

    Their bytes are in the table, so the broker is not needed; the schema registry is asked for schemas that were
    unknown. Progress does not move. Afterwards the change feed and the rollups are brought up to date.
    """
    from lakehouse.derived.refresh import caught_up, refresh_all
    from lakehouse.ingest.redrive import redrive as decode_again

    settings = load_settings()
    chosen = chosen_table(settings, table)
    with registry(settings, needed=chosen.has_schemas), table_context(settings, chosen) as working, busy("Redriving"):
        outcomes = caught_up(working, lambda: decode_again(working, reason))
        derived = refresh_all(working)
    return show_outcomes(outcomes, derived, json, idle="Nothing to do: no rejected record passes today's declaration.")
