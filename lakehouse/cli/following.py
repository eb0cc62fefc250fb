"""The verb ``follow``."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import MaxRecordsOption, TableArgument, chosen_table, examples
from lakehouse.cli.batches import refresh
from lakehouse.cli.facts import outcome_facts
from lakehouse.cli.output import complain, say
from lakehouse.cli.session import broker, load_settings, spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.batch.ingest import Outcome
    from lakehouse.declaration import StreamTable
    from lakehouse.settings import Settings

verbs = typer.Typer()

_POLL = 1.0  # seconds between two looks at a topic
_REPORTED = ("version", "read", "rejected", "duplicate", "late", "inserted", "updated", "stale", "lag_after")


@verbs.command(epilog=examples("lakehouse follow", "lakehouse follow temperatures --idle-exit 60"))
def follow(
    table: TableArgument = None,
    idle_exit: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="End after so long without a new record.")
    ] = None,
    max_records: MaxRecordsOption = None,
) -> None:
    """Merge again and again as records arrive, until Ctrl-C or until the topic was idle for --idle-exit.

    Ctrl-C ends it at once: a batch that has not been committed is as if it had never begun.
    """
    chosen, settings = chosen_table(table), load_settings()
    try:
        with broker(settings), spark(settings) as session:
            complain(f"Following topic {chosen.topic}; Ctrl-C ends it.")
            merged = _follow(_Followed(session, settings, chosen, max_records), idle_exit)
    except KeyboardInterrupt:
        return say("Stopped; what was not committed is merged the next time.")
    return say(f"No new record for {idle_exit:g} seconds. Batches merged: {merged:,}.")


@dataclass(frozen=True)
class _Followed:
    """A table that is followed, with what it takes."""

    session: "SparkSession"
    settings: "Settings"
    table: "StreamTable"
    max_records: int | None

    def merge(self) -> int:
        """Merge all there is and bring what derives from it up to date; how many batches that were."""
        from lakehouse.batch import ingest

        request = ingest.Request(max_records=self.max_records)
        plan = ingest.plan_next(self.settings, self.table, request)
        if not plan.span and not plan.gap:
            return 0
        outcomes = ingest.merge_all(self.session, self.settings, self.table, request, _report)
        refresh(self.session, self.settings, self.table)
        return len(outcomes)


def _follow(followed: _Followed, idle_exit: float | None) -> int:
    """Merge until nothing came for so many seconds; how many batches were merged."""
    merged, data_at = 0, time.monotonic()
    while True:
        batches = followed.merge()
        if batches:
            merged, data_at = merged + batches, time.monotonic()
        elif idle_exit is not None and time.monotonic() - data_at >= idle_exit:
            return merged
        else:
            time.sleep(_POLL)


def _report(outcome: "Outcome") -> None:
    facts = outcome_facts(outcome)
    say(", ".join(f"{name} {facts[name]:,}" for name in _REPORTED))
