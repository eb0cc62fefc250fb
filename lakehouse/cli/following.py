"""The command ``follow``."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import MaxRecordsOption, TableArgument, examples, select_table, starts_broker
from lakehouse.cli.output import print_line, print_notice
from lakehouse.cli.table_session import broker, load_settings, table_context
from lakehouse.errors import BrokerError, BrokerRefusedError, EngineLostError, SourceUnreachableError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.ingest.batches import Request
    from lakehouse.ingest.outcomes import Outcome
    from lakehouse.ledger.positions import Plan
    from lakehouse.settings import Settings
    from lakehouse.storage.table_context import TableContext

commands = typer.Typer()

_POLL = 1.0  # seconds between two looks at a topic
_ENGINE_WAIT = 30.0  # seconds for lakehouse up to restart its engine: our own Spark would prevent that


@commands.command(epilog=examples("lakehouse follow", "lakehouse follow temperatures --idle-exit 60"))
@starts_broker
def follow(
    table: TableArgument = None,
    idle_exit: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Exit after so many seconds without a new record.")
    ] = None,
    max_records: MaxRecordsOption = None,
) -> None:
    """Merge records as they arrive, until Ctrl-C or until the topic was idle for --idle-exit seconds.

    If the broker or the store of files goes away, the command waits for it; that time is not idle. The command ends if
    the broker refuses the connection, if the topic is deleted or recreated, because its records are gone, or if what it
    reads is missing or cannot be read. If the engine ends or drops the session, the command attaches again; without an
    engine within 30 seconds, it starts its own Spark. Ctrl-C ends the command at once. The next merge includes a batch
    that was not committed.
    """
    settings = load_settings()
    stream_table = select_table(settings, table)
    try:
        with broker(settings, stream_table, with_registry=stream_table.has_schemas):
            print_notice(f"Following {stream_table.topic_text}; Ctrl-C stops.")
            batch_count = _follow(settings, stream_table, max_records, idle_exit)
    except KeyboardInterrupt:
        return print_line("Stopped. The next merge includes what was not committed.")
    return print_line(f"No new record for {idle_exit:g} seconds. Batches merged: {batch_count:,}.")


def _follow(settings: "Settings", table: "StreamTable", max_records: int | None, idle_exit: float | None) -> int:
    """Follow in one session after another; return the number of commits. Raises if two sessions are lost at once."""
    merged = refreshed = 0
    was_lost_early = False
    while True:
        start = time.monotonic()
        with table_context(settings, table) as context:
            follower = _Follower(context, max_records, merged, refreshed)
            try:
                follower.follow(idle_exit)
                return follower.merged
            except EngineLostError as error:
                is_lost_early = follower.merged == merged and time.monotonic() - start < _ENGINE_WAIT
                if was_lost_early and is_lost_early:
                    raise
                was_lost_early = is_lost_early
                print_notice(f"{error} Continuing in a new session.")
                merged, refreshed = follower.merged, follower.refreshed
        _await_engine(settings)


def _await_engine(settings: "Settings") -> None:
    """Wait until the ended engine of the home runs again; with a limit, because nobody may restart it any more."""
    from lakehouse.spark.engine import engine_folder, is_engine_running

    deadline = time.monotonic() + _ENGINE_WAIT
    while not (settings.spark_remote or is_engine_running(engine_folder(settings)) or time.monotonic() > deadline):
        time.sleep(_POLL)


@dataclass
class _Follower:
    """Follows a table in one session; counts its commits, and how many of them the derived tables have read."""

    context: "TableContext"
    max_records: int | None
    merged: int = 0
    refreshed: int = 0

    def follow(self, idle_exit: float | None) -> None:
        """Merge until no record came for ``idle_exit`` seconds in which the broker answered.

        Raises ``BrokerError`` if the broker cannot be reached at first; if it goes away later, waits for it, and also
        for a store of files. Every other error ends it at any time.
        """
        self._plan()
        idle_seconds, is_away = 0.0, False
        while idle_exit is None or idle_seconds < idle_exit:
            merged_before, start = self.merged, time.monotonic()
            is_away = not self._merge_if_reachable(is_away)
            if self.merged > merged_before:
                idle_seconds = 0.0
                continue
            time.sleep(_POLL)
            idle_seconds += 0.0 if is_away else time.monotonic() - start

    def _merge_if_reachable(self, was_away: bool) -> bool:
        """Merge what is new; return whether the source answered. Prints once that it went away, or came back."""
        try:
            self._merge()
        except BrokerRefusedError:
            raise
        except (BrokerError, SourceUnreachableError) as error:
            if not was_away:
                print_notice(f"{error} Waiting until it answers.{self._embedded_advice}")
            return False
        if was_away:
            print_notice("The source answers again.")
        return True

    def _merge(self) -> None:
        """Merge what is new, and refresh the derived tables, also if an earlier refresh failed."""
        from lakehouse.derived.refresh import refresh_all, refresh_and_retry
        from lakehouse.ingest import batches

        if not all(plan.is_idle for plan in self._plan()):
            refresh_and_retry(self.context, lambda: batches.merge_all(self.context, self._request, self._count_merge))
        if self.refreshed < self.merged:
            refresh_all(self.context)
            self.refreshed = self.merged

    @property
    def _embedded_advice(self) -> str:
        if self.context.settings.kafka_bootstrap_servers or not self.context.table.has_topics:
            return ""
        return " If this command started the broker, nothing restarts it: stop with Ctrl-C."

    @property
    def _request(self) -> "Request":
        from lakehouse.ingest.batches import Request

        return Request(max_records=self.max_records)

    def _plan(self) -> "list[Plan]":
        from lakehouse.ingest.batches import plan_each
        from lakehouse.ledger.log_copies import look_again

        look_again()
        return plan_each(self.context.settings, self.context.table, self._request)

    def _count_merge(self, outcome: "Outcome") -> None:
        self.merged += 1
        print_line(str(outcome))
