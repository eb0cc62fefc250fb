"""Commands that merge: ``load-base``, ``merge`` and ``replay``."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import (
    JsonOption,
    MaxRecordsOption,
    OnlyMergedOption,
    TableArgument,
    TopicOption,
    examples,
    select_table,
    select_topic,
    starts_broker,
)
from lakehouse.cli.facts import outcome_fields, table_rows
from lakehouse.cli.output import (
    count_text,
    print_json,
    print_line,
    print_notice,
    print_partitions,
    print_table,
    spinner,
)
from lakehouse.cli.table_session import broker, load_settings, table_context

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.derived.feed import Derived
    from lakehouse.ingest.batches import Request
    from lakehouse.ingest.outcomes import Outcome
    from lakehouse.ledger.positions import Plan, Range
    from lakehouse.settings import Settings

commands = typer.Typer()

NOTHING_TO_DO = 3
_RANGE = re.compile(r"([0-9]{1,10}):([0-9]{1,19})-([0-9]{1,19})")
_LAST_PARTITION, _LAST_POSITION = 2**31 - 1, 2**63 - 1  # that a topic can have
FailIfIdleOption = Annotated[
    bool, typer.Option("--fail-if-idle", help=f"Exit with {NOTHING_TO_DO} if there is nothing to merge.")
]


@commands.command("load-base", epilog=examples("lakehouse load-base temperatures data/temperatures/base"))
def load_base(
    table: TableArgument = None,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Base files; default: the folder of the last load, or else the declared folder."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Load base files into the base table of a table. The next merge brings their rows into the merged table.

    Loading the same files again changes nothing. If one file cannot be read, nothing is loaded.
    """
    from lakehouse.ingest import load

    settings = load_settings()
    stream_table = select_table(settings, table)
    if folder is not None and not folder.is_dir():
        raise typer.BadParameter(f"folder {folder} does not exist", param_hint="FOLDER")
    with table_context(settings, stream_table) as context, spinner("Loading base files"):
        load_result = load.load_base(context, folder)
    if json:
        return print_json(asdict(load_result))
    files_text, rows_text = count_text(load_result.files, "file"), count_text(load_result.rows, "row")
    print_line(f"Read {files_text} with {rows_text} from {load_result.folder}.")
    counts = f"{load_result.inserted:,} rows inserted, {load_result.updated:,} rows updated"
    print_line(f"{stream_table.base_name}: {counts}; version {load_result.version}.")
    return print_line(f"Next: lakehouse merge {stream_table.name}")


@commands.command(
    epilog=examples(
        "lakehouse merge", "lakehouse merge temperatures --max-records 10000", "lakehouse merge --dry-run --json"
    )
)
@starts_broker
def merge(
    table: TableArgument = None,
    max_records: MaxRecordsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what the next batch would read, and exit.")] = False,
    fail_if_idle: FailIfIdleOption = False,
    only_merged: OnlyMergedOption = False,
    json: JsonOption = False,
) -> None:
    """Merge everything that is new: first base rows, then the records of the topic, batch by batch.

    Merges up to the end of the topic at the start of the command. Later records wait for the next merge. Then refreshes
    the change feed and the rollups.
    """
    from lakehouse.cli.output import merge_progress
    from lakehouse.derived.refresh import refresh_all, refresh_and_retry
    from lakehouse.ingest import batches

    settings = load_settings()
    stream_table = select_table(settings, table)
    request = batches.Request(max_records=max_records)
    if dry_run:
        is_idle = _show_plan(settings, stream_table, request, json)
        return _fail_if_idle(is_idle=fail_if_idle and is_idle)
    services = broker(settings, stream_table, with_registry=stream_table.has_schemas)
    with services, table_context(settings, stream_table) as context:
        _print_changes(settings, stream_table)
        with merge_progress() as show:
            outcomes = refresh_and_retry(context, lambda: batches.merge_all(context, request, show))
        with spinner("Refreshing feed and rollups"):
            derived_updates = [] if only_merged else refresh_all(context)
    show_outcomes(stream_table, outcomes, derived_updates, json)
    _print_held_files(settings, stream_table)
    return _fail_if_idle(is_idle=fail_if_idle and not outcomes)


def _fail_if_idle(*, is_idle: bool) -> None:
    if is_idle:
        raise typer.Exit(NOTHING_TO_DO)


def _print_held_files(settings: "Settings", table: "StreamTable") -> None:
    """Print which files are not read yet, and why."""
    from lakehouse.ledger.positions import describe_held
    from lakehouse.sources.table_sources import source_of
    from lakehouse.storage.table_context import merged_ledger

    if table.reads_files:
        held_parts = source_of(settings, table).read_state(merged_ledger(settings, table), 0.0).held_parts
        if text := describe_held(held_parts, table.position_noun):
            print_notice(text)


def _print_changes(settings: "Settings", table: "StreamTable") -> None:
    from lakehouse.operations.planned_changes import list_planned_changes

    for change in list_planned_changes(settings, table):
        print_notice(str(change))


def _show_plan(settings: "Settings", table: "StreamTable", request: "Request", json: bool) -> bool:
    """Print what the next batch would read; return whether there is nothing to merge."""
    from lakehouse.ingest.batches import plan_each

    with broker(settings, table):
        plans = plan_each(settings, table, request)
    if json:
        print_json([asdict(plan) for plan in plans] if table.topics else asdict(plans[0]))
    else:
        for plan in plans:
            _print_plan(table, plan)
    return all(plan.is_idle for plan in plans)


def _print_plan(table: "StreamTable", plan: "Plan") -> None:
    from lakehouse.ledger.accounting import describe_left_out
    from lakehouse.ledger.positions import source_words

    for problem in plan.gap.shown_facts if plan.gap else ():
        print_notice(f"{problem}. {table.name} accepts the gap: it is recorded, and the batch continues after it.")
    if plan.left_out is not None:
        is_whole = not table.has_topics
        subject = f"Topic {plan.stream} is new" if table.topics else f"{table.name} is new and has a start"
        subject = f"{table.name} is new" if is_whole else subject
        print_notice(f"{subject}: {describe_left_out(plan.left_out, plan.source)}.")
    words = source_words(plan.source)
    rows = [(p.partition, words.count(p.start), words.count(p.end), words.count(p.span)) for p in plan.ranges]
    nouns = f"{words.position}s of {words.source} {plan.stream}"
    return print_partitions(
        ["partition", "from", "to", f"{words.position}s"],
        rows,
        title=f"The next batch of {table.name} would read {words.count(plan.span):,} {nouns}",
    )


def show_outcomes(
    table: "StreamTable",
    outcomes: "Sequence[Outcome]",
    derived: "Sequence[Derived]",
    json: bool,
    idle: str = "Nothing to do: the table is up to date.",
) -> None:
    """Print what commits did, and the updates of derived tables; ``idle`` says why there was no commit."""
    from lakehouse.ingest.outcomes import describe_omitted_fields, most_common_fields

    batches = [outcome_fields(outcome) for outcome in outcomes]
    if json:
        return print_json({"batches": batches, "derived": [update.facts for update in derived]})
    if not batches:
        return print_line(idle)
    rows = table_rows(batches)
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    unmapped_fields = [f"{name} ({count:,} records)" for name, count in most_common_fields(outcomes).items()]
    if unmapped_fields:
        beyond = describe_omitted_fields(outcomes)
        shown_fields = f"{', '.join(unmapped_fields)}{beyond and f', and {beyond}'}"
        print_line(f"{_describe_place(table)}: {shown_fields}.")
    for update in derived:
        print_line(f"{update.name}: {update.changed:,} rows changed, up to date with version {update.source_version}.")
    return None


def _describe_place(table: "StreamTable") -> str:
    """Where the unmapped fields of records are."""
    from lakehouse.declaration import UnmappedFields

    stores = [column.name for column in table.record_columns if isinstance(column.source, UnmappedFields)]
    return f"Fields stored in column {stores[0]}" if stores else "Fields that no column reads"


@commands.command(
    epilog=examples(
        "lakehouse replay temperatures",
        "lakehouse replay temperatures 0:0-500 1:20-40",
        "lakehouse replay orders --again",
    )
)
@starts_broker
def replay(
    table: TableArgument = None,
    ranges: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RANGE", help="PARTITION:FROM-TO, as audit shows it; TO is one past the last offset to replay."
        ),
    ] = None,
    topic: TopicOption = None,
    reads_again: Annotated[
        bool, typer.Option("--again", help="Correct stored rows: read their own records by the declaration of now.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Merge records again that were merged before: by default everything that its topics still have.

    Rows that are up to date do not change. Progress does not move. If the table reads several topics, ranges need
    --topic. With --again, stored rows follow their records as declared now: they change, or are removed if the record
    is rejected, filtered, or has another key. It does not ask.
    """
    from lakehouse.derived.refresh import refresh_all, refresh_and_retry
    from lakehouse.ingest.replay import read_again
    from lakehouse.ingest.replay import replay as merge_again

    settings = load_settings()
    stream_table, range_texts = _split_arguments(settings, table, ranges or [])
    requested_ranges = [_parse_range(text) for text in range_texts] or None
    is_part = bool(requested_ranges) or topic is not None
    part = select_topic(stream_table, topic) if is_part else stream_table
    services = broker(settings, stream_table, with_registry=reads_again and stream_table.has_schemas)
    ranges_by_topic = {part.topic: requested_ranges} if is_part else None
    read_table = stream_table if reads_again else part
    with services, table_context(settings, read_table) as context, spinner("Replaying"):
        correct, repeat = partial(read_again, context, ranges_by_topic), partial(merge_again, context, requested_ranges)
        outcomes = refresh_and_retry(context, correct if reads_again else repeat)
        derived_updates = refresh_all(context)
    return show_outcomes(stream_table, outcomes, derived_updates, json)


def _split_arguments(settings: "Settings", first: str | None, ranges: list[str]) -> "tuple[StreamTable, list[str]]":
    """Return the table and the ranges; if the first argument is a range, the table is the only declared one.

    The name of a table never starts with a digit: an argument that does has to be a range.
    """
    from lakehouse.discovery import declared_tables

    if first is None or not first[:1].isdecimal():
        return select_table(settings, first), ranges
    _parse_range(first)
    tables = declared_tables(settings)
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise typer.BadParameter(
            f"Several tables are declared; name one before the range {first}: {names}", param_hint="TABLE"
        )
    return tables[0], [first, *ranges]


def _parse_range(text: str) -> "Range":
    from lakehouse.ledger.positions import Range

    match = _RANGE.fullmatch(text)
    partition, start, end = map(int, match.groups()) if match else (0, 0, 0)
    if not start < end:
        problem = f"{text!r} must be PARTITION:FROM-TO with FROM below TO, for example 0:0-500"
        raise typer.BadParameter(problem, param_hint="RANGE")
    if partition > _LAST_PARTITION or end > _LAST_POSITION:
        problem = f"{text!r} is too large; the maximum of PARTITION:FROM-TO is {_LAST_PARTITION}:0-{_LAST_POSITION}"
        raise typer.BadParameter(problem, param_hint="RANGE")
    return Range(partition, start, end)
