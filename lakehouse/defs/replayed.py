"""The replay of days: a partition of the asset is a day, and one run replays the records of all chosen days."""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs import figures, specs
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.steps import StepInput, StepResult, build_step
from lakehouse.derived import refresh
from lakehouse.errors import LakehouseError
from lakehouse.ingest.days import find_ranges
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.replay import replay
from lakehouse.ingest.topics import split_context
from lakehouse.ledger.audit import rows_unchanged
from lakehouse.ledger.positions import Range


def replayed_asset(entry: CatalogEntry) -> dg.AssetsDefinition:
    """The replayed days. The same step updates the derived tables, so that they are never behind a replay."""
    table = entry.table

    def replay_days(step: StepInput) -> StepResult:
        days = _chosen_days(step)
        table_context = step.table_context
        parts = [part for part in split_context(table_context) if part.ledger().progress] or [table_context]
        ranges = {part.table.topic: find_ranges(part, days) for part in parts}
        step.context.log.info(f"Replaying {_count_offsets(ranges):,} offsets: {ranges}")
        outcomes = [
            outcome
            for part in parts
            for outcome in refresh.refresh_and_retry(part, partial(replay, part, ranges[part.table.topic]))
        ]
        for derived in refresh.refresh_all(table_context):
            step.context.log.info(f"Derived table updated after the replay: {derived.facts}")
        finding = rows_unchanged([outcome.entry for outcome in outcomes], _advice(table))
        return StepResult({table.replayed_name: _metadata(days, ranges, outcomes)}, [finding])

    doc = (
        f"The replay changed no row of {table.name}. If the check fails, the table did not have the result of these"
        f" records; it has it now. {_advice(table)}"
    )
    check = entry.check_spec("rows_unchanged", table.replayed_name, doc)
    return build_step(entry, replay_days, [specs.replayed_spec(entry)], [check])


def _chosen_days(step: StepInput) -> list[date]:
    if not (step.context.has_partition_key or step.context.has_partition_key_range):
        raise LakehouseError(
            "The run has no days to replay",
            where=f"asset {step.table.replayed_name}",
            action="Select the asset alone, choose Materialize, and then the days.",
        )
    return [date.fromisoformat(key) for key in step.context.partition_keys]


def _advice(table: StreamTable) -> str:
    """How to find out why rows changed."""
    feed = f" {table.changes_name} has the changed rows, by source_version." if not table.is_log else ""
    return (
        "This is expected if the declaration changed since the records were merged. Otherwise another program changed"
        f" the table: lakehouse audit {table.name} lists its commits.{feed}"
    )


def _count_offsets(ranges: Mapping[str, Sequence[Range]]) -> int:
    return sum(part.span for parts in ranges.values() for part in parts)


def _metadata(
    days: Sequence[date], ranges: Mapping[str, Sequence[Range]], outcomes: Sequence[Outcome]
) -> figures.Figures:
    entries = [outcome.entry for outcome in outcomes]
    metrics = [entry.metrics for entry in entries]
    return {
        "days": f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}",
        "batches": len(entries),
        "offsets_replayed": _count_offsets(ranges),
        "records_read": sum(entry.commit.read for entry in entries),
        "rows_changed": sum(part.inserted + part.updated + part.deleted for part in metrics),
        "offsets_read": figures.topic_ranges_table(ranges),
    }
