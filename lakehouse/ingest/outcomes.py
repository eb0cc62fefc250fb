"""The result of a batch, and the unmapped fields of several batches."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse.ingest.counts import MAX_UNMAPPED_FIELDS
from lakehouse.ledger.accounting import describe_entry
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.positions import Plan

_MAX_LISTED_FIELDS = 20


@dataclass(frozen=True)
class Outcome:
    """The result of one commit to the merged table; lag is in positions over all partitions.

    ``has_more`` means that there may be more to merge, up to the requested end. ``unmapped_fields`` has the number of
    records with each unmapped field.
    """

    entry: Entry
    plan: Plan | None
    lag_before: int
    lag_after: int
    seconds: float
    has_more: bool = True
    unmapped_fields: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """Describe the result in one sentence, for a log."""
        return f"{describe_entry(self.entry)}; lag {self.lag_after:,}, {self.seconds:.1f} s"


def most_common_fields(outcomes: Iterable[Outcome], limit: int = _MAX_LISTED_FIELDS) -> dict[str, int]:
    """Return the most common unmapped fields of these batches, at most ``limit``, with their number of records."""
    return dict(_count_unmapped_fields(outcomes).most_common(limit))


def describe_omitted_fields(outcomes: Sequence[Outcome], limit: int = _MAX_LISTED_FIELDS) -> str:
    """Return how many unmapped fields there are beyond ``limit``, in words; empty if there are none."""
    omitted_count = len(_count_unmapped_fields(outcomes)) - limit
    is_incomplete = any(len(outcome.unmapped_fields) >= MAX_UNMAPPED_FIELDS for outcome in outcomes)
    return f"{'at least ' if is_incomplete else ''}{omitted_count:,} more" if omitted_count > 0 else ""


def _count_unmapped_fields(outcomes: Iterable[Outcome]) -> Counter[str]:
    return sum((Counter(outcome.unmapped_fields) for outcome in outcomes), Counter[str]())
