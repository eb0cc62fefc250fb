"""The configuration that a run accepts. Everything is optional: a run without configuration merges all records."""

import dagster as dg
from pydantic import Field

from lakehouse.ingest.batches import Request
from lakehouse.ledger.positions import Plan


class RangeConfig(dg.Config):
    """One partition, and the offset up to which it is merged (exclusive). A merge starts at the table's progress."""

    partition: int = Field(description="Number of the partition.", ge=0)
    end: int = Field(description="The offset after the last record to merge.", ge=0)


class MergeConfig(dg.Config):
    """Limits of a merge. Without any, a run merges all records."""

    max_records: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of offsets per batch. A larger backlog takes several batches."
        " Default: the limit that the table declares.",
    )
    ranges: list[RangeConfig] = Field(
        default=[],
        description="Merge up to the end of these ranges, and nothing of other partitions. Empty: merge all records.",
    )

    def request(self, plan: Plan) -> Request:
        """Convert the limits into a request for ``ingest``; ``plan`` is the plan without limits."""
        range_ends = {part.partition: part.end for part in self.ranges}
        other_starts = {part.partition: part.start for part in plan.ranges} if range_ends else {}
        return Request(max_records=self.max_records, until={**other_starts, **range_ends})


class BaseConfig(dg.Config):
    """The source of the base rows."""

    folder: str | None = Field(
        default=None,
        description="Folder of the base files. Default: the folder of the last load, or else the declared folder.",
    )
