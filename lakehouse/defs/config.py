"""What a person may tell a run. Nothing is required: without configuration all there is, is merged."""

import dagster as dg
from pydantic import Field

from lakehouse.ingest.batches import Request
from lakehouse.ledger.positions import Plan


class RangeConfig(dg.Config):
    """Positions of one partition from ``start`` (inclusive) to ``end`` (exclusive)."""

    partition: int = Field(description="Number of the partition.", ge=0)
    start: int = Field(description="First offset; what is already merged is skipped.", ge=0)
    end: int = Field(description="The offset after the last one to merge.", ge=0)


class MergeConfig(dg.Config):
    """Bounds of a merge; leave everything out to merge all there is."""

    max_records: int | None = Field(
        default=None,
        ge=1,
        description="Most positions in one batch; a backlog is merged in several. Default: what the table declares.",
    )
    ranges: list[RangeConfig] = Field(
        default=[],
        description="Merge to these ends, and nothing of partitions that are not named. Empty: to the end.",
    )

    def request(self, plan: Plan) -> Request:
        """Say it to ``ingest``; ``plan`` is what would be merged without bounds."""
        until = {part.partition: part.end for part in self.ranges}
        unnamed = {part.partition: part.start for part in plan.ranges} if until else {}
        return Request(max_records=self.max_records, until={**unnamed, **until})


class BaseConfig(dg.Config):
    """Where base rows come from."""

    folder: str | None = Field(
        default=None, description="Folder of base files. Default: that of the last load, else the declared one."
    )
