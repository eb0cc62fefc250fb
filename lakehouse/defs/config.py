"""The configuration that a run accepts. Everything is optional: a run without configuration merges all records."""

import dagster as dg
from pydantic import Field

from lakehouse.declaration import StreamTable
from lakehouse.defs.waiting import Waiting
from lakehouse.errors import LakehouseError
from lakehouse.ingest.batches import Request


class RangeConfig(dg.Config):
    """One partition, and the offset up to which it is merged (exclusive). A merge starts at the table's progress."""

    partition: int = Field(description="Number of the partition.", ge=0)
    topic: str | None = Field(default=None, description="The topic, if the table reads several.")
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

    def request(self, table: StreamTable, waiting: Waiting) -> Request:
        """Convert the limits into a request for ``ingest``; ``waiting`` has the plans without limits.

        Raises ``LakehouseError`` if the ranges are not all of one topic of the table.
        """
        if not self.ranges:
            return Request(max_records=self.max_records)
        names = {part.topic or (None if table.topics else table.topic) for part in self.ranges}
        plans = [plan for _, plan in waiting.topics if {plan.stream} == names]
        if not plans:
            raise LakehouseError(
                f"The ranges of a run must be of one topic of {table.name}",
                where=table.topic_text,
                action="Name the topic of each range, the same for all.",
            )
        range_ends = {part.partition: part.end for part in self.ranges}
        other_starts = {part.partition: part.start for part in plans[0].ranges}
        topic = plans[0].stream if table.topics else None
        return Request(self.max_records, {**other_starts, **range_ends}, topic)


class BaseConfig(dg.Config):
    """The source of the base rows."""

    folder: str | None = Field(
        default=None,
        description="Folder of the base files. Default: the folder of the last load, or else the declared folder.",
    )
