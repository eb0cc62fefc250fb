"""Commands for a person who decides about loss: accept it, delete rows without a key, or record a lost progress."""

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import PlainGroup, TableArgument, YesOption, examples, select_table, starts_broker
from lakehouse.cli.output import count_text, print_line, print_notice, print_table, spinner
from lakehouse.cli.table_session import broker, load_settings, table_context

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.declaration import StreamTable
    from lakehouse.operations.repair import Proposal
    from lakehouse.settings import Settings
    from lakehouse.storage.table_context import TableContext

commands = typer.Typer(
    name="repair",
    cls=PlainGroup,
    help="Decide about loss: accept it, delete rows without a key, or record a lost progress.",
    epilog=examples("lakehouse repair gap temperatures", "lakehouse repair progress temperatures"),
    no_args_is_help=True,
)

VersionsOption = Annotated[
    list[int],
    typer.Option("--version", min=0, metavar="V", help="A version whose counts do not add up; can be repeated."),
]
ReasonOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Why you accept it, in words; stored in the history of the table.")
]


@commands.command("gap", epilog=examples("lakehouse repair gap temperatures", "lakehouse repair gap --yes"))
@starts_broker
def accept_gap(table: TableArgument = None, yes: YesOption = False) -> None:
    """Accept that records are gone from the topic, and continue after them; the ledger of the table records it.

    Merges stop if records are gone that were never merged. Use this command if the records cannot be restored. It first
    shows what is gone. If a compacted topic may have removed deletes, their rows stay: see
    lakehouse repair missing-keys.
    """
    from lakehouse.ingest.topics import split_by_topic

    settings = load_settings()
    stream_table = select_table(settings, table)
    with broker(settings, stream_table):
        versions = [_accept_gap_of(settings, part, yes) for part in split_by_topic(settings, stream_table)]
    recorded_versions = [str(version) for version in versions if version is not None]
    if not recorded_versions:
        return print_line("No records are missing; there is no gap to accept.")
    return print_line(
        f"Recorded in version {', '.join(recorded_versions)} of {stream_table.name}. Next: lakehouse merge"
        f" {stream_table.name}"
    )


def _accept_gap_of(settings: "Settings", table: "StreamTable", yes: bool) -> int | None:
    """Show what is gone of one topic and record it; return the version, ``None`` if nothing is gone."""
    from lakehouse.operations import repair

    gap = _confirm_gap(table, repair.propose_gap(settings, table), yes)
    if gap is None:
        return None
    with table_context(settings, table) as context:
        return repair.record(context, gap).version


def _confirm_gap(table: "StreamTable", gap: "Proposal | None", yes: bool) -> "Proposal | None":
    """Show a gap and ask whether to accept it; return it."""
    from lakehouse.ledger.positions import first_of

    if gap is None:
        return None
    for problem in first_of(gap.facts, "partitions with a loss"):
        print_notice(f"{problem} (topic {table.topic}).")
    _show_positions(gap.positions, f"{table.name} continues at")
    if not yes:
        typer.confirm("Accept the gap and continue after it?", abort=True, err=True)
    return gap


@commands.command("missing-keys", epilog=examples("lakehouse repair missing-keys settings"))
@starts_broker
def delete_missing(table: TableArgument = None, yes: YesOption = False) -> None:
    """Delete the rows whose keys a compacted topic no longer has: it removed their deletes before they were merged.

    Asks whether to accept the gap, if only deletes may be gone, and merges what waits. Then reads every record of the
    topic, shows how many rows have no record with their key, and asks again. Rows of base files, and of topics that
    were created again, stay, and so do rows whose record may have expired. A second run finds nothing to delete.

    Do not use it after the broker was restored from an older copy: keys of lost records are missing too.
    """
    from lakehouse.derived.refresh import refresh_all, refresh_and_retry
    from lakehouse.ingest.batches import merge_all
    from lakehouse.ingest.missing_keys import require_tombstones
    from lakehouse.ingest.topics import split_context
    from lakehouse.operations import repair

    settings = load_settings()
    stream_table = select_table(settings, table)
    require_tombstones(stream_table)
    services = broker(settings, stream_table, with_registry=stream_table.has_schemas)
    with services, table_context(settings, stream_table) as context:
        parts = split_context(context)
        for part in parts:
            gap = _confirm_gap(part.table, repair.propose_gap(settings, part.table, only_deletes=True), yes)
            if gap:
                repair.record(part, gap)
        with spinner("Merging what waits"):
            refresh_and_retry(context, lambda: merge_all(context))
        count = sum(_delete_missing_of(part, yes) for part in parts)
        with spinner("Refreshing feed and rollups"):
            refresh_all(context)
    return print_line(f"{count_text(count, 'row')} deleted from {stream_table.name}.")


def _delete_missing_of(context: "TableContext", yes: bool) -> int:
    """Show what the topic of the context no longer has, and delete it; return the number of rows."""
    from lakehouse.ingest.missing_keys import delete_missing, find_missing_keys
    from lakehouse.storage.spark_failures import spark_failures
    from lakehouse.storage.table_context import retry_on_conflict

    with spark_failures():
        with spinner("Reading the keys of the topic"):
            missing_keys = find_missing_keys(context)
        if not missing_keys.count:
            return 0
        rows_text, shown_keys = count_text(missing_keys.count, "row"), ", ".join(missing_keys.first_keys)
        place = f"{context.table.name} whose key is not in topic {context.table.topic}"
        print_notice(f"{rows_text} of {place}, for example: {shown_keys}")
        if not (yes or typer.confirm("Delete them?", err=True)):
            return 0
        found_before = [missing_keys]

        def delete() -> int:
            """Delete what was shown; after a conflict, what is still missing of it."""
            found_keys = found_before.pop() if found_before else find_missing_keys(context).among(missing_keys)
            return delete_missing(context, found_keys).metrics.deleted if found_keys.count else 0

        return retry_on_conflict(delete)


@commands.command(
    "difference",
    epilog=examples("lakehouse repair difference temperatures --version 7 --reason 'replayed by version 9'"),
)
def accept_difference(
    versions: VersionsOption, reason: ReasonOption, table: TableArgument = None, yes: YesOption = False
) -> None:
    """Accept that the counts of a commit do not add up; the ledger of the table records the reason.

    After such a commit, the check `batches_accounted` fails with every run until you accept it, or restore a version
    before it: `lakehouse audit` shows the command. Repair the rows first: `lakehouse replay` merges missing records.
    The command first shows what does not add up. No row changes.
    """
    from lakehouse.operations import repair

    if not reason.strip():
        raise typer.BadParameter("Give a reason.", param_hint="--reason")
    settings = load_settings()
    stream_table = select_table(settings, table)
    proposal = repair.propose_acceptance(settings, stream_table, versions, reason.strip())
    for difference in proposal.facts:
        print_notice(difference)
    if not yes:
        typer.confirm(f"Accept this in {stream_table.name}?", abort=True, err=True)
    with table_context(settings, stream_table) as context:
        entry = repair.record(context, proposal)
    return print_line(
        f"Recorded in version {entry.version} of {stream_table.name}. See: lakehouse audit {stream_table.name}"
    )


@commands.command("progress", epilog=examples("lakehouse repair progress temperatures"))
@starts_broker
def recover_progress(table: TableArgument = None, yes: YesOption = False) -> None:
    """Record the progress of a table again if its log no longer contains it.

    Proposes one past the greatest offset among the merged rows of each partition, and shows it first.
    """
    from lakehouse.operations import repair

    settings = load_settings()
    stream_table = select_table(settings, table)
    with broker(settings, stream_table), table_context(settings, stream_table) as context:
        proposal = repair.propose_progress(context)
        for topic, positions in proposal.all_positions.items():
            of_topic = f" in topic {topic}" if stream_table.topics else ""
            _show_positions(positions, f"Proposed progress of {stream_table.name}{of_topic}")
        if not yes:
            typer.confirm("Record this as the progress of the table?", abort=True, err=True)
        entry = repair.record(context, proposal)
    return print_line(
        f"Recorded in version {entry.version} of {stream_table.name}. Next: lakehouse merge {stream_table.name}"
    )


def _show_positions(positions: "Mapping[int, int]", title: str) -> None:
    print_table(["partition", "next offset"], sorted(positions.items()), title=title)
