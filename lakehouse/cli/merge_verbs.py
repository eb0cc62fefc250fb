"""Verbs that merge: ``load-base``, ``merge`` and ``replay``."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import (
    JsonOption,
    MaxRecordsOption,
    OnlyMergedOption,
    TableArgument,
    chosen_table,
    examples,
)
from lakehouse.cli.facts import outcome_facts, shown_facts
from lakehouse.cli.output import complain, print_json, print_table, say
from lakehouse.cli.phases import busy
from lakehouse.cli.table_session import broker, load_settings, table_context

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.derived.changes import Derived
    from lakehouse.ingest.batches import Outcome, Request
    from lakehouse.ledger.positions import Range
    from lakehouse.settings import Settings

verbs = typer.Typer()

NOTHING_TO_DO = 3
_RANGE = re.compile(r"([0-9]{1,10}):([0-9]{1,19})-([0-9]{1,19})")
_LAST_PARTITION, _LAST_POSITION = 2**31 - 1, 2**63 - 1  # that a topic can have
FailIfIdleOption = Annotated[
    bool, typer.Option("--fail-if-idle", help=f"Exit with code {NOTHING_TO_DO} where there is nothing to merge.")
]


@verbs.command("load-base", epilog=examples("lakehouse load-base temperatures data/temperatures/base"))
def load_base(
    table: TableArgument = None,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Base files; default: the folder of the last load, else the declared one."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Load base files into the base table of a table; the next merge brings their rows into the merged one.

    The same files again change nothing. One file that cannot be read: nothing is loaded.
    """
    from lakehouse.ingest import load

    settings = load_settings()
    chosen = chosen_table(settings, table)
    if folder is not None and not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}", param_hint="FOLDER")
    with table_context(settings, chosen) as working, busy("Loading base files"):
        loaded = load.load_base(working, folder)
    if json:
        return print_json(asdict(loaded))
    say(f"{loaded.files:,} files with {loaded.rows:,} rows, read from {loaded.folder}.")
    say(f"{chosen.base_name}: {loaded.inserted:,} rows new, {loaded.updated:,} changed; version {loaded.version}.")
    return say(f"Next: lakehouse merge {chosen.name}")


@verbs.command(
    epilog=examples(
        "lakehouse merge", "lakehouse merge temperatures --max-records 10000", "lakehouse merge --dry-run --json"
    )
)
def merge(
    table: TableArgument = None,
    max_records: MaxRecordsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what the next batch would read, and stop.")] = False,
    fail_if_idle: FailIfIdleOption = False,
    only_merged: OnlyMergedOption = False,
    json: JsonOption = False,
) -> None:
    """Merge all there is: newer base rows first, then the records of the topic, batch by batch.

    What is there at the start is merged; records that arrive meanwhile wait for the next time.
    Afterwards the change feed and the rollups are brought up to date.
    """
    from lakehouse.cli.pace import merging
    from lakehouse.derived.refresh import caught_up, refresh_all
    from lakehouse.ingest import batches

    settings = load_settings()
    chosen = chosen_table(settings, table)
    request = batches.Request(max_records=max_records)
    if dry_run:
        return _show_plan(settings, chosen, request, json)
    with broker(settings, with_registry=chosen.has_schemas), table_context(settings, chosen) as working:
        _tell_changes(settings, chosen)
        with merging() as shown:
            outcomes = caught_up(working, lambda: batches.merge_all(working, request, shown))
        with busy("Bringing feed and rollups up to date"):
            derived = [] if only_merged else refresh_all(working)
    show_outcomes(outcomes, derived, json)
    if fail_if_idle and not outcomes:
        raise typer.Exit(NOTHING_TO_DO)
    return None


def _tell_changes(settings: "Settings", table: "StreamTable") -> None:
    """Say what the declaration changes in tables that are there."""
    from lakehouse.operations.planned_changes import told_changes

    for change in told_changes(settings, table):
        complain(str(change))


def _show_plan(settings: "Settings", table: "StreamTable", request: "Request", json: bool) -> None:
    from lakehouse.ingest.batches import plan_next

    with broker(settings):
        plan = plan_next(settings, table, request)
    if json:
        return print_json(asdict(plan))
    for fact in plan.gap.facts if plan.gap else ():
        complain(f"{fact}. {table.name} accepts that: it is recorded, and the batch goes on behind it.")
    return print_table(
        ["partition", "from", "to", "offsets"],
        [(part.partition, part.start, part.end, part.span) for part in plan.ranges],
        title=f"The next batch of {table.name} would read {plan.span:,} offsets of topic {plan.stream}",
    )


def show_outcomes(
    outcomes: "Sequence[Outcome]",
    derived: "Sequence[Derived]",
    json: bool,
    idle: str = "Nothing to do: the table holds all there is.",
) -> None:
    """Print what commits did, and what was derived from them; where there was none, ``idle`` says why."""
    from lakehouse.ingest.batches import others_beyond, others_of

    told = [outcome_facts(each) for each in outcomes]
    if json:
        return print_json({"batches": told, "derived": [each.facts for each in derived]})
    if not told:
        return say(idle)
    shown = [shown_facts(facts) for facts in told]
    print_table(list(shown[0]), [list(facts.values()) for facts in shown])
    others = [f"{name} ({many:,} records)" for name, many in others_of(outcomes).items()]
    if others:
        beyond = others_beyond(outcomes)
        say(f"Fields that no column takes: {', '.join(others)}{beyond and f', and {beyond}'}.")
    for each in derived:
        say(f"{each.name}: {each.changed:,} rows changed, up to date with version {each.source_version}.")
    return None


@verbs.command(
    epilog=examples(
        "lakehouse replay temperatures",
        "lakehouse replay temperatures 0:0-500 1:20-40",
    )
)
def replay(
    table: TableArgument = None,
    ranges: Annotated[
        list[str] | None,
        typer.Argument(metavar="RANGE", help="PARTITION:FROM-TO, as audit shows them; TO is one past the last offset."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Merge records again that have been merged before: by default all that the topic still holds.

    Rows that are up to date stay as they are. Progress does not move.
    """
    from lakehouse.derived.refresh import caught_up, refresh_all
    from lakehouse.ingest.replay import replay as merge_again

    settings = load_settings()
    chosen, ranges = _table_of(settings, table, ranges or [])
    wanted = [_range(each) for each in ranges] or None
    with broker(settings), table_context(settings, chosen) as working, busy("Replaying"):
        outcomes = caught_up(working, lambda: merge_again(working, wanted))
        derived = refresh_all(working)
    return show_outcomes(outcomes, derived, json)


def _table_of(settings: "Settings", first: str | None, ranges: list[str]) -> "tuple[StreamTable, list[str]]":
    """Return a table, and ranges of it; where a range stands first, the table is the only one that is declared.

    No name of a table begins with a digit: what does is a range, and has to be one.
    """
    from lakehouse.discovery import declared_tables

    if first is None or not first[:1].isdecimal():
        return chosen_table(settings, first), ranges
    _range(first)
    tables = declared_tables(settings)
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise typer.BadParameter(f"Name the table before the range {first}: {names}", param_hint="TABLE")
    return tables[0], [first, *ranges]


def _range(text: str) -> "Range":
    from lakehouse.ledger.positions import Range

    found = _RANGE.fullmatch(text)
    partition, start, end = map(int, found.groups()) if found else (0, 0, 0)
    if not start < end:
        fact = f"{text!r} is not PARTITION:FROM-TO with FROM below TO, as 0:0-500"
        raise typer.BadParameter(fact, param_hint="RANGE")
    if partition > _LAST_PARTITION or end > _LAST_POSITION:
        fact = f"{text!r} is beyond what PARTITION:FROM-TO can be: {_LAST_PARTITION}:0-{_LAST_POSITION}"
        raise typer.BadParameter(fact, param_hint="RANGE")
    return Range(partition, start, end)
