"""What every source of records can do, and how workers decode what it reads."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, SourceState
from lakehouse.storage.table_context import TableContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Judge(NamedTuple):
    """How records are decoded in Spark's workers.

    ``decode`` turns arrays of values, or tuples of those and of other ``parts``, into arrays of verdicts of the SQL
    type ``type``, in order. An array may become several. With ``needs_raw``, later steps read the raw parts of valid
    records. ``finish`` turns the decoded batches of a reader into those that it gives to Spark.
    """

    decode: Any
    type: str
    parts: Sequence[str]
    needs_raw: bool = True
    finish: Any = None


class Undecoded(Protocol):
    """Records that their readers decode, so that their bytes need not go through Spark."""

    @property
    def size(self) -> int:
        """Bytes of the files that hold them."""
        ...

    def judged(self, judge: Judge) -> "DataFrame":
        """Return a row for each record: ``staged.PLACE``, ``staged.RAW`` and ``staged.VERDICT``.

        Without ``needs_raw``, the raw parts of valid records are NULL.
        """
        ...


class Source(ABC):
    """Where the records of a table come from.

    A source has an identity and numbered partitions. Each record has a position in its partition. Positions only grow,
    and may have holes. A position always has the same record, as long as the source holds it.
    """

    times_may_go_back: ClassVar[bool] = False
    """Whether a record may have a time before that of an earlier record of its partition."""

    @property
    def unordered_group(self) -> str:
        """What records have in common whose order is arbitrary, in SQL; empty if the source orders all of them."""
        return ""

    @abstractmethod
    def read_state(self, ledger: Ledger | None, limit: float) -> SourceState:
        """Return the identity of the source, and the positions that it holds, within ``limit`` seconds; writes nothing.

        ``ledger`` is that of the table if what is gone matters only after its progress.
        """

    def preview_state(self, ledger: Ledger | None, limit: float) -> SourceState:
        """Preview the state after new records are registered; writes nothing. Never plan a read from it."""
        return self.read_state(ledger, limit)

    def register_state(self, context: TableContext, ledger: Ledger, limit: float) -> SourceState:  # noqa: ARG002
        """Give positions to records that have none yet, and read the state: before a run plans a batch."""
        return self.read_state(ledger, limit)

    @abstractmethod
    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame | Undecoded":
        """Return the records in the ranges of a plan: one row for each, with ``staged.PLACE`` and ``staged.RAW``.

        ``ledger`` is the one that the plan was made on, if what it reads was not merged before.
        """

    @abstractmethod
    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:
        """Turn a failure to read a plan into an error that says what to do; ``command`` continues."""

    def read_state_after(self, ledger: Ledger | None, limit: float) -> SourceState:
        """Read the state again after a plan was read, for the identity; it may lack positions that the source holds.

        Raises what ``read_state`` raises.
        """
        return self.read_state(ledger, limit)

    def consumed(self, plan: Plan) -> dict[str, Consumed]:  # noqa: ARG002
        """Return the version up to which a plan reads each table that the source consists of, if it is a table."""
        return {}
