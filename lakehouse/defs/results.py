"""What a step reports to Dagster: the current state of the table, and what the run did. Without a JVM."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.ingest.batches import Outcome, others_beyond, others_of
from lakehouse.ledger.accounting import sums
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.audit import Finding
from lakehouse.ledger.commits import OF_RECORDS, Entry, Totals
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.positions import Plan, Range
from lakehouse.operations.open_rejections import count_rejected
from lakehouse.operations.planned_changes import Change
from lakehouse.settings import Settings

DATA_VERSION = "dagster/data_version"  # the tag that shows Dagster that an asset changed
Facts = Mapping[str, Any]
# If one of these checks fails, it only warns: the rows of the tables are correct.
_WARNINGS = {"rejected_share", "producer_time", "every_change_kept", "changes_kept"}


def materialize_result(spec: dg.AssetSpec, settings: Settings, metadata: Facts) -> dg.MaterializeResult[Any]:
    """Build the result of a materialized asset, for a table with its current version; ``metadata`` is from the run.

    A table that does not exist because nothing was written yet has no rows and version -1.
    """
    if "dagster/table_name" not in spec.metadata:
        return dg.MaterializeResult(asset_key=spec.key, metadata=metadata)
    table_metadata = table_facts(spec, settings)
    version = dg.DataVersion(str(table_metadata["table_version"]))
    return dg.MaterializeResult(asset_key=spec.key, metadata={**table_metadata, **metadata}, data_version=version)


def table_facts(spec: dg.AssetSpec, settings: Settings) -> dict[str, Any]:
    """The current state of a table: row count, location, version, and the lineage of its columns."""
    name = spec.key.path[-1]
    uri = settings.table_uri(name)
    lineage = "dagster/column_lineage"
    state = {"dagster/row_count": count_rows(uri), "dagster/uri": uri, "table_version": read_ledger(uri, name).version}
    return {**state, **({lineage: spec.metadata[lineage]} if lineage in spec.metadata else {})}


def check_result(finding: Finding, asset: dg.AssetKey, *, is_warning: bool = False) -> dg.AssetCheckResult:
    """Convert a finding into the result of a declared check. With ``is_warning``, a failure only warns."""
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=finding.check,
        passed=finding.passed,
        severity=_severity(finding, is_warning=is_warning),
        description=finding.detail,
    )


def check_evaluation(finding: Finding, asset: dg.AssetKey) -> dg.AssetCheckEvaluation:
    """Convert a finding into an event outside of a run."""
    severity = _severity(finding)
    return dg.AssetCheckEvaluation(asset, finding.check, finding.passed, severity=severity, description=finding.detail)


def _severity(finding: Finding, *, is_warning: bool = False) -> dg.AssetCheckSeverity:
    warns = is_warning or finding.check in _WARNINGS
    return dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR


def accounting(outcomes: Sequence[Outcome], totals: Totals) -> dict[str, Any]:
    """Account for every record of a run's batches, separately for base rows, and for all batches so far."""
    return {**count_commits([outcome.entry for outcome in outcomes], totals), **_unmapped_fields(outcomes)}


def count_commits(entries: Sequence[Entry], totals: Totals) -> dict[str, Any]:
    """Account for every record that the commits merged, separately for base rows, and for all batches so far."""
    merge_entries = [entry for entry in entries if entry.commit.kind in OF_RECORDS]
    base = sums(entry for entry in entries if entry.commit.kind == "base")
    return {
        "batches": len(merge_entries),
        "gaps": sum(entry.commit.kind == "gap" for entry in entries),
        **sums(merge_entries),
        "base_rows_inserted": base["inserted"],
        "base_rows_updated": base["updated"],
        **{f"total_{name}": count for name, count in totals.model_dump().items()},
    }


def count_rejections(settings: Settings, table: StreamTable, merged_ledger: Ledger) -> dict[str, int]:
    """How many stored rejected records are unresolved, and how many were resolved since."""
    counts = count_rejected(settings, table, merged_ledger)
    return {"open": counts.open, "resolved": counts.resolved} if counts else {}


def _unmapped_fields(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The fields of the records that no column reads; empty if there are none."""
    rows = [dg.TableRecord({"field": name, "records": count}) for name, count in others_of(outcomes).items()]
    schema = dg.TableSchema(columns=[dg.TableColumn("field", "string"), dg.TableColumn("records", "int")])
    omitted_summary = others_beyond(outcomes)
    metadata = {"other_fields": dg.MetadataValue.table(rows, schema=schema)} if rows else {}
    return {**metadata, "other_fields_unnamed": omitted_summary} if omitted_summary else metadata


def declaration_changes(changes: Sequence[Change]) -> dict[str, Any]:
    """What a changed declaration changes in existing tables; empty if nothing."""
    rows = [
        dg.TableRecord({"table": change.table, "change": change.kind, "detail": change.detail}) for change in changes
    ]
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in ("table", "change", "detail")])
    return {"declaration_changes": dg.MetadataValue.table(rows, schema=schema)} if rows else {}


def read_ranges(outcomes: Sequence[Outcome], plan: Plan) -> dict[str, Any]:
    """The lag before and after a run, and the offsets read of each partition; ``plan`` was made before the run."""
    batches = [outcome for outcome in outcomes if outcome.plan]
    partition_ranges: dict[int, tuple[int, int]] = {}
    for part in (part for outcome in batches if outcome.plan for part in outcome.plan.ranges):
        start, _ = partition_ranges.get(part.partition, (part.start, part.end))
        partition_ranges[part.partition] = (start, part.end)
    return {
        "lag_before": plan.span,
        "lag_after": batches[-1].lag_after if batches else plan.span,
        "ranges": range_table(Range(p, start, end) for p, (start, end) in partition_ranges.items()),
    }


def range_table(ranges: Iterable[Range]) -> dg.TableMetadataValue:
    """A table of ranges, in order."""
    rows = [dg.TableRecord({"partition": p.partition, "start": p.start, "end": p.end}) for p in sorted(ranges)]
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "int") for name in ("partition", "start", "end")])
    return dg.MetadataValue.table(rows, schema=schema)
