"""Verbs for a person who decides about loss: ``accept-gap``, ``accept-difference`` and ``recover-progress``."""

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import TableArgument, YesOption, chosen_table, examples
from lakehouse.cli.output import complain, print_table, say
from lakehouse.cli.table_session import broker, load_settings, table_context

if TYPE_CHECKING:
    from lakehouse.operations.repair import Proposal

verbs = typer.Typer()

VersionsOption = Annotated[
    list[int],
    typer.Option("--version", min=0, metavar="V", help="A version that does not add up; may be given several times."),
]
ReasonOption = Annotated[str, typer.Option(help="Why it is accepted, in words; the table's history keeps it.")]


@verbs.command("accept-gap", epilog=examples("lakehouse accept-gap temperatures", "lakehouse accept-gap --yes"))
def accept_gap(table: TableArgument = None, yes: YesOption = False) -> None:
    """Accept that records are gone from the topic, and go on behind them; the table's ledger records it.

    Merging stops where records that were never merged are gone. This is the way on when they cannot be
    brought back. What is gone is shown first.
    """
    from lakehouse.operations import repair

    settings = load_settings()
    chosen = chosen_table(settings, table)
    with broker(settings):
        gap = repair.propose_gap(settings, chosen)
        if gap is None:
            return say("Nothing is missing; there is no gap to accept.")
        for fact in gap.facts:
            complain(f"{fact} (topic {chosen.topic}).")
        _show_positions(gap, f"{chosen.name} goes on at")
        if not yes:
            typer.confirm("Accept this and go on behind the gap?", abort=True, err=True)
        with table_context(settings, chosen) as working:
            entry = repair.record(working, gap)
    return say(f"Recorded in version {entry.version} of {chosen.name}. Next: lakehouse merge {chosen.name}")


@verbs.command(
    "accept-difference",
    epilog=examples("lakehouse accept-difference temperatures --version 7 --reason 'replayed by version 9'"),
)
def accept_difference(
    versions: VersionsOption, reason: ReasonOption, table: TableArgument = None, yes: YesOption = False
) -> None:
    """Accept that a commit does not account for its records; the table's ledger records why.

    The check `batches_accounted` fails with every run after such a commit, until you accept it or a RESTORE undoes it.
    Repair the rows first: a replay merges what is missing. What does not add up is shown first. No row changes.
    """
    from lakehouse.operations import repair

    if not reason.strip():
        raise typer.BadParameter("Say why it is accepted.", param_hint="--reason")
    settings = load_settings()
    chosen = chosen_table(settings, table)
    proposed = repair.propose_acceptance(settings, chosen, versions, reason.strip())
    for fact in proposed.facts:
        complain(fact)
    if not yes:
        typer.confirm(f"Accept this in {chosen.name}?", abort=True, err=True)
    with table_context(settings, chosen) as working:
        entry = repair.record(working, proposed)
    return say(f"Recorded in version {entry.version} of {chosen.name}. See: lakehouse audit {chosen.name}")


@verbs.command("recover-progress", epilog=examples("lakehouse recover-progress temperatures"))
def recover_progress(table: TableArgument = None, yes: YesOption = False) -> None:
    """Record anew how far a table got, where its log no longer tells.

    Proposed is one past the greatest offset among the merged rows of each partition. It is shown first.
    """
    from lakehouse.operations import repair

    settings = load_settings()
    chosen = chosen_table(settings, table)
    with broker(settings), table_context(settings, chosen) as working:
        progress = repair.propose_progress(working)
        _show_positions(progress, f"Proposed for {chosen.name}")
        if not yes:
            typer.confirm("Record this as the progress of the table?", abort=True, err=True)
        entry = repair.record(working, progress)
    return say(f"Recorded in version {entry.version} of {chosen.name}. Next: lakehouse merge {chosen.name}")


def _show_positions(proposed: "Proposal", title: str) -> None:
    print_table(["partition", "next offset"], sorted(proposed.positions.items()), title=title)
