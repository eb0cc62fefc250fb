"""The assets of a declared table: one function for each kind of asset."""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

import dagster as dg
from pydantic import Field

from lakehouse.declaration import Reference, Rollup, StreamTable
from lakehouse.defs import figures, specs
from lakehouse.defs.automation import known_version
from lakehouse.defs.specs import CatalogEntry
from lakehouse.defs.steps import StepInput, StepResult, build_step, require_accepted
from lakehouse.defs.waiting import Waiting, plan_waiting_records
from lakehouse.derived import refresh
from lakehouse.derived.feed import Derived
from lakehouse.errors import LakehouseError
from lakehouse.ingest import batches, load
from lakehouse.ingest.batches import Request
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.replay import find_ranges, read_again, replay
from lakehouse.ingest.topics import split_context
from lakehouse.kafka import PATIENCE
from lakehouse.ledger.audit import batches_accounted, changes_kept, rows_unchanged
from lakehouse.ledger.positions import Range
from lakehouse.operations import verify
from lakehouse.operations.planned_changes import list_planned_changes
from lakehouse.storage.table_context import merged_ledger

Asset = dg.AssetsDefinition | dg.AssetSpec


class ReplayConfig(dg.Config):
    """What a replay of days does with stored rows."""

    reads_again: bool = Field(
        default=False,
        description="Correct stored rows by the declaration of now. Default: rows of records that were merged stay.",
    )


def replayed_asset(entry: CatalogEntry) -> dg.AssetsDefinition:
    """The replayed days. The same step updates the derived tables, so that they are never behind a replay."""
    table = entry.table

    def replay_days(step: StepInput) -> StepResult:
        days = _chosen_days(step)
        table_context = step.table_context
        parts = [part for part in split_context(table_context) if part.ledger().progress] or [table_context]
        ranges = {part.table.topic: find_ranges(part, days) for part in parts}
        step.context.log.info(f"Replaying {_count_offsets(ranges):,} offsets: {ranges}")
        if step.config.reads_again:
            outcomes = refresh.refresh_and_retry(table_context, partial(read_again, table_context, ranges))
        else:
            outcomes = [
                outcome
                for part in parts
                for outcome in refresh.refresh_and_retry(part, partial(replay, part, ranges[part.table.topic]))
            ]
        for derived in refresh.refresh_all(table_context):
            step.context.log.info(f"Derived table updated after the replay: {derived.facts}")
        entries = [outcome.entry for outcome in outcomes]
        finding = rows_unchanged(entries, _advice(table), may_correct=step.config.reads_again)
        return StepResult({table.replayed_name: _replay_metadata(days, ranges, outcomes)}, [finding])

    doc = (
        f"The replay changed no row of {table.name}. If the check fails, the table did not have the result of these"
        f" records; it has it now. {_advice(table)}"
    )
    check = entry.check_spec("rows_unchanged", table.replayed_name, doc)
    return build_step(entry, replay_days, [specs.replayed_spec(entry)], [check], ReplayConfig)


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


def _replay_metadata(
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
        **figures.without_zeros({"rows_corrected": sum(entry.commit.corrected for entry in entries)}),
        "offsets_read": figures.topic_ranges_table(ranges),
    }


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


def build_assets(entry: CatalogEntry) -> list[Asset]:
    """Build all assets of a declared table."""
    table = entry.table
    return [
        *([specs.topic_spec(entry)] if entry.has_own_topic else []),
        *(reference_asset(entry, reference) for reference in table.references),
        *([base_asset(entry)] if table.base else []),
        merged_asset(entry),
        *([] if table.is_log else [changes_asset(entry)]),
        *(rollup_asset(entry, rollup) for rollup in table.rollups),
        *([replayed_asset(entry)] if table.topic_options.replay_from else []),
    ]


def reference_asset(entry: CatalogEntry, reference: Reference) -> dg.AssetsDefinition:
    """A reference table, made equal to its file."""

    def load_file(step: StepInput) -> StepResult:
        load_result = load.load_reference(step.table_context, reference)
        counts = figures.without_zeros({"rows_deleted": load_result.deleted})
        return StepResult({reference.name: {**_loaded_rows(load_result), **counts}})

    return build_step(entry, load_file, [specs.reference_spec(entry, reference)])


def base_asset(entry: CatalogEntry) -> dg.AssetsDefinition:
    """The base rows. A second run with the same files changes nothing."""
    table = entry.table

    def load_files(step: StepInput) -> StepResult:
        folder = Path(step.config.folder) if step.config.folder else None
        load_result = load.load_base(step.table_context, folder)
        counts = {
            "folder": dg.MetadataValue.path(str(load_result.folder)),
            "files_read": load_result.files,
            **figures.without_zeros({"rows_superseded": load_result.superseded}),
        }
        return StepResult({table.base_name: {**counts, **_loaded_rows(load_result)}})

    return build_step(entry, load_files, [specs.base_spec(entry)], config=BaseConfig)


def merged_asset(entry: CatalogEntry) -> dg.AssetsDefinition:
    """The merged table and its rejected records. The same batches write both, so one step materializes both."""
    table = entry.table

    def merge(step: StepInput) -> StepResult:
        if not step.context.selected_asset_keys:  # a person evaluates the check alone: nothing is merged
            return StepResult({}, [batches_accounted(merged_ledger(step.settings, table))])
        require_accepted(step.context.run, step.settings, table)
        version = known_version(step.context.instance, entry.merged_key, merged_ledger(step.settings, table))
        waiting = plan_waiting_records(step.settings, table, PATIENCE)
        request = step.config.request(table, waiting)
        log = step.context.log
        changes = _declaration_changes(step, table.name, table.rejected_name)
        outcomes = refresh.refresh_and_retry(
            step.table_context,
            lambda: batches.merge_all(step.table_context, request, lambda outcome: log.info(str(outcome))),
            lambda derived: log.info(f"Derived table updated before the merge: {derived.facts}"),
        )
        ledger = merged_ledger(step.settings, table)
        entries = figures.entries_of_run(outcomes, ledger, version)
        counts = figures.count_records(outcomes, ledger, entries)
        merged = {**counts, **figures.read_ranges(outcomes, waiting, ledger, entries), **changes}
        rejected = figures.count_rejections(step.settings, table, ledger, merged["records_rejected"])
        rejected |= figures.rejected_reasons(step.settings, table, entries)
        finding = batches_accounted(ledger, entries)
        return StepResult({table.name: merged, table.rejected_name: rejected}, [finding])

    doc = (
        "Every commit accounts for its records, touches no key that occurs in two rows, and starts where the commit"
        " before it ended. It fails until you accept the difference, or restore a version before the wrong commit."
        f" To see both commands: lakehouse audit {table.name}."
    )
    check = entry.check_spec("batches_accounted", table.name, doc)
    return build_step(entry, merge, [specs.merged_spec(entry), specs.rejected_spec(entry)], [check], MergeConfig)


def changes_asset(entry: CatalogEntry) -> dg.AssetsDefinition:
    """The change feed, updated to the version of the merged table."""
    table = entry.table

    def update(step: StepInput) -> StepResult:
        changes = _declaration_changes(step, table.changes_name)
        derived = refresh.refresh_changes(step.table_context)
        finding = changes_kept(reconciled=derived.rebuilt)
        return StepResult({derived.name: {**_metadata(derived), **changes}}, [finding])

    doc = (
        f"The run wrote only single changes that {table.name} recorded. It warns if the run had to write net"
        " differences, because the single changes were already gone. Run the job more often than the retention of"
        " the table."
    )
    check = entry.check_spec("changes_kept", table.changes_name, doc)
    return build_step(entry, update, [specs.changes_spec(entry)], [check])


def rollup_asset(entry: CatalogEntry, rollup: Rollup) -> dg.AssetsDefinition:
    """An aggregate, updated to the version of the merged table."""

    def update(step: StepInput) -> StepResult:
        changes = _declaration_changes(step, rollup.name)
        derived = refresh.refresh_rollup(step.table_context, rollup)
        finding = verify.verify_touched(step.table_context, rollup, derived)
        groups = figures.newest_groups(step.settings, entry.table, rollup)
        return StepResult({derived.name: {**_metadata(derived), **changes, **groups}}, [finding])

    doc = (
        f"{rollup.name} stores the groups that the run touched as the run computed them from {entry.table.name}. If"
        f" the check fails, restore {rollup.name} as its result says, then materialize it."
    )
    check = entry.check_spec("touched_groups_stored", rollup.name, doc)
    return build_step(entry, update, [specs.rollup_spec(entry, rollup)], [check])


def _declaration_changes(step: StepInput, *names: str) -> figures.Figures:
    """Log and return what the step changes in these tables because their declaration changed."""
    changes = [change for change in list_planned_changes(step.settings, step.table) if change.table in names]
    for change in changes:
        step.context.log.info(str(change))
    return figures.declaration_changes(changes)


def _metadata(derived: Derived) -> figures.Figures:
    """The figures of a derived table; its change is counted in rows of the feed, or in groups of the rollup."""
    rebuilt = {"rebuilt": True} if derived.rebuilt else {}
    return {"source_version": derived.source_version, "rows_changed": derived.changed, **rebuilt}


def _loaded_rows(load_result: load.BaseLoad | load.ReferenceLoad) -> figures.Figures:
    return {"rows_read": load_result.rows, "rows_inserted": load_result.inserted, "rows_updated": load_result.updated}
