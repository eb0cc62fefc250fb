"""The replay of days: a partition of the asset is a day, and one run replays the records of all chosen days."""

from collections.abc import Sequence
from datetime import date

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs import figures, specs
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.steps import StepInput, StepResult, build_step
from lakehouse.derived import refresh
from lakehouse.errors import LakehouseError
from lakehouse.ingest.batches import Outcome
from lakehouse.ingest.days import find_ranges
from lakehouse.ingest.replay import replay
from lakehouse.ledger.audit import rows_unchanged
from lakehouse.ledger.positions import Range


def replayed_asset(entry: CatalogEntry) -> dg.AssetsDefinition:
    """The replayed days. The same step updates the derived tables, so that they are never behind a replay."""
    table = entry.table

    def replay_days(step: StepInput) -> StepResult:
        days = _chosen_days(step)
        table_context = step.table_context
        ranges = find_ranges(table_context, days)
        step.context.log.info(f"Replaying {sum(part.span for part in ranges):,} offsets: {ranges}")
        outcomes = refresh.refresh_and_retry(table_context, lambda: replay(table_context, ranges))
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


def _metadata(days: Sequence[date], ranges: Sequence[Range], outcomes: Sequence[Outcome]) -> figures.Figures:
    entries = [outcome.entry for outcome in outcomes]
    metrics = [entry.metrics for entry in entries]
    return {
        "days": f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}",
        "batches": len(entries),
        "offsets_replayed": sum(part.span for part in ranges),
        "records_read": sum(entry.commit.read for entry in entries),
        "rows_changed": sum(part.inserted + part.updated + part.deleted for part in metrics),
        "offsets_read": figures.range_table(ranges),
    }
