"""Generated records as a source of a table."""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakehouse.declaration import StreamTable
from lakehouse.declaration.generated import Generated
from lakehouse.errors import DataLossError, SourceError
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.positions import Plan, Progress, SourceState
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse.sources.generated.look import start_of, state_of
from lakehouse.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MILLISECOND = 1_000  # microseconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_clock() -> int:
    """Return the time in microseconds since 1970, as the clock of this machine says."""
    return time.time_ns() // 1_000


@dataclass(frozen=True)
class GeneratedSource(Source):
    """Records that are computed; the table keeps the time of the first one, and a clock says how many there are."""

    settings: Settings
    table: StreamTable
    generated: Generated

    def look(self, ledger: Ledger | None, limit: float) -> SourceState:  # noqa: ARG002 - a clock answers at once
        """Look at the clock. Of a table that does not exist yet, only a declared start says which records exist."""
        progress = ledger.progress if ledger else None
        state = state_of(self.generated, self._start(progress), read_clock(), progress)
        return replace(state, starts=state.earliest) if ledger is not None and progress is None else state

    def _start(self, progress: Progress | None) -> int | None:
        """Return the time of record 0 in microseconds since 1970: as declared, as recorded, or as the table's own."""
        if self.generated.since is not None:
            return (self.generated.since - _EPOCH) // timedelta(microseconds=1)
        recorded = start_of(progress.source, self.generated) if progress else None
        return self._created_at() if recorded is None else recorded

    def _created_at(self) -> int | None:
        uri = self.settings.table_uri(self.table.name)
        table = open_table(uri)
        if table is None:
            return None
        with log_failures(uri):
            created_at = table.metadata().created_time
        if created_at is None:
            raise SourceError(
                f"Table {self.table.name} does not record when it was created",
                where=uri,
                action="Declare when its records begin: since=datetime(..., tzinfo=UTC)",
            )
        return created_at * _MILLISECOND

    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame":  # noqa: ARG002
        """Compute the records of the plan."""
        from lakehouse.sources.generated.read import read_generated  # noqa: PLC0415 - only a session needs Spark

        start = start_of(plan.source, self.generated)
        if start is None:
            raise DataLossError(
                f"The records of {self.table.name} are those of another generator than the declared one",
                where=f"generator {plan.stream}",
                action="Declare the generator of before, or a table with another name.",
            )
        return read_generated(spark, self.generated, start, plan)

    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Explain nothing: what is computed cannot be gone."""
        return nullcontext()
