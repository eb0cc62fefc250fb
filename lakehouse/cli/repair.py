"""Verbs for a person who decides about loss: ``accept-gap`` and ``recover-progress``."""

from typing import TYPE_CHECKING

import typer

from lakehouse.cli.arguments import TableArgument, YesOption, chosen_table, examples
from lakehouse.cli.output import complain, print_table, say
from lakehouse.cli.session import broker, engine, load_settings

if TYPE_CHECKING:
    from lakehouse.upkeep.repair import Proposal

verbs = typer.Typer()


@verbs.command("accept-gap", epilog=examples("lakehouse accept-gap temperatures", "lakehouse accept-gap --yes"))
def accept_gap(table: TableArgument = None, yes: YesOption = False) -> None:
    """Accept that records are gone from the topic, and go on behind them; the table's ledger records it.

    Merging stops where records that were never merged are gone. This is the way on when they cannot be
    brought back. What is gone is shown first.
    """
    from lakehouse.upkeep import repair

    settings = load_settings()
    chosen = chosen_table(settings, table)
    with broker(settings):
        gap = repair.propose_gap(settings, chosen)
        if gap is None:
            return say("Nothing is missing; there is no gap to accept.")
        for fact in gap.facts:
            complain(f"{fact} (topic {chosen.topic}).")
        _show_offsets(gap, f"{chosen.name} goes on at")
        if not yes:
            typer.confirm("Accept this and go on behind the gap?", abort=True, err=True)
        with engine(settings, chosen) as working:
            entry = repair.record(working, gap)
    return say(f"Recorded in version {entry.version} of {chosen.name}. Next: lakehouse merge {chosen.name}")


@verbs.command("recover-progress", epilog=examples("lakehouse recover-progress temperatures"))
def recover_progress(table: TableArgument = None, yes: YesOption = False) -> None:
    """Record anew how far a table got, where its log no longer tells.

    Proposed is one past the greatest offset among the merged rows of each partition. It is shown first.
    """
    from lakehouse.upkeep import repair

    settings = load_settings()
    chosen = chosen_table(settings, table)
    with broker(settings), engine(settings, chosen) as working:
        progress = repair.propose_progress(working)
        _show_offsets(progress, f"Proposed for {chosen.name}")
        if not yes:
            typer.confirm("Record this as the progress of the table?", abort=True, err=True)
        entry = repair.record(working, progress)
    return say(f"Recorded in version {entry.version} of {chosen.name}. Next: lakehouse merge {chosen.name}")


def _show_offsets(proposed: "Proposal", title: str) -> None:
    print_table(["partition", "next offset"], sorted(proposed.offsets.items()), title=title)
