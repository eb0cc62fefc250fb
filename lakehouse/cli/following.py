"""The verb ``follow``."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import MaxRecordsOption, TableArgument, chosen_table, examples
from lakehouse.cli.output import complain, say
from lakehouse.cli.table_session import broker, load_settings, table_context
from lakehouse.errors import BrokerError, BrokerRefusedError, EngineLostError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.ingest.batches import Outcome, Request
    from lakehouse.ledger.positions import Plan
    from lakehouse.settings import Settings
    from lakehouse.storage.table_context import TableContext

verbs = typer.Typer()

_POLL = 1.0  # seconds between two looks at a topic
_BACK = 30.0  # seconds in which lakehouse up may start its engine again: a Spark of our own would keep it from that


@verbs.command(epilog=examples("lakehouse follow", "lakehouse follow temperatures --idle-exit 60"))
def follow(
    table: TableArgument = None,
    idle_exit: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="End after so long without a new record.")
    ] = None,
    max_records: MaxRecordsOption = None,
) -> None:
    """Merge again and again as records arrive, until Ctrl-C or until the topic was idle for --idle-exit.

    A broker that goes away is waited for, and that time is not idle. One that refuses us ends it, and so does a topic
    that is deleted or made anew: what it held is gone. An engine that ends, or gives the session up, is attached to
    anew; where it does not come back within 30 seconds, a Spark of its own goes on. Ctrl-C ends it at once: a batch
    that has not been committed is as if it had never begun.
    """
    settings = load_settings()
    chosen = chosen_table(settings, table)
    try:
        with broker(settings, with_registry=chosen.has_schemas):
            complain(f"Following topic {chosen.topic}; Ctrl-C ends it.")
            merged = _follow(settings, chosen, max_records, idle_exit)
    except KeyboardInterrupt:
        return say("Stopped; what was not committed is merged the next time.")
    return say(f"No new record for {idle_exit:g} seconds. Batches merged: {merged:,}.")


def _follow(settings: "Settings", table: "StreamTable", max_records: int | None, idle_exit: float | None) -> int:
    """Follow over one session after the other; how many commits were made. Two that are lost at once end it."""
    merged = refreshed = 0
    at_once = False
    while True:
        began = time.monotonic()
        with table_context(settings, table) as working:
            follower = _Follower(working, max_records, merged, refreshed)
            try:
                follower.follow(idle_exit)
                return follower.merged
            except EngineLostError as error:
                before, at_once = at_once, follower.merged == merged and time.monotonic() - began < _BACK
                if before and at_once:
                    raise
                complain(f"{error} A new session goes on.")
                merged, refreshed = follower.merged, follower.refreshed
        _await_engine(settings)


def _await_engine(settings: "Settings") -> None:
    """Wait until the engine of the home, which has ended, lives again; not for ever: nobody may keep it any more."""
    from lakehouse.spark.engine import engine_folder, lives

    deadline = time.monotonic() + _BACK
    while not (settings.spark_remote or lives(engine_folder(settings)) or time.monotonic() > deadline):
        time.sleep(_POLL)


@dataclass
class _Follower:
    """Who follows a table: what it takes, how many commits it made, and after how many of them it refreshed."""

    working: "TableContext"
    max_records: int | None
    merged: int = 0
    refreshed: int = 0

    def follow(self, idle_exit: float | None) -> None:
        """Merge until nothing came for so many seconds in which the broker answered.

        Raises ``BrokerError`` where the broker is not there at first; one that goes away later is waited for.
        ``BrokerRefusedError``, ``TopicError`` and ``DataLossError`` end it, whenever they come.
        """
        self._plan()
        idle, away = 0.0, False
        while idle_exit is None or idle < idle_exit:
            before, began = self.merged, time.monotonic()
            away = not self._answered(away)
            if self.merged > before:
                idle = 0.0
                continue
            time.sleep(_POLL)
            idle += 0.0 if away else time.monotonic() - began

    def _answered(self, away: bool) -> bool:
        """Merge what there is; whether the broker answered. That it went away, or came back, is told once."""
        try:
            self._merge()
        except BrokerRefusedError:
            raise
        except BrokerError as error:
            if not away:
                complain(f"{error} Waiting until it answers.{self._of_its_own}")
            return False
        if away:
            complain("The broker answers again.")
        return True

    def _merge(self) -> None:
        """Merge all there is, and bring what derives from it up to date: also after a look that failed in between."""
        from lakehouse.derived.refresh import caught_up, refresh_all
        from lakehouse.ingest import batches

        plan = self._plan()
        if plan.span or plan.gap:
            caught_up(self.working, lambda: batches.merge_all(self.working, self._request, self._merged))
        if self.refreshed < self.merged:
            refresh_all(self.working)
            self.refreshed = self.merged

    @property
    def _of_its_own(self) -> str:
        outside = self.working.settings.kafka_bootstrap_servers
        return "" if outside else " Where this command started it, nobody starts it again: end it with Ctrl-C."

    @property
    def _request(self) -> "Request":
        from lakehouse.ingest.batches import Request

        return Request(max_records=self.max_records)

    def _plan(self) -> "Plan":
        from lakehouse.ingest.batches import plan_next

        return plan_next(self.working.settings, self.working.table, self._request)

    def _merged(self, outcome: "Outcome") -> None:
        self.merged += 1
        say(str(outcome))
