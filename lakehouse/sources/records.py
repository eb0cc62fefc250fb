"""The records that a source gives to be decoded: a DataFrame, or records that their readers decode themselves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
