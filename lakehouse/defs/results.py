"""What a materialization tells: the table as it is now, and what the run did to it. No JVM."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse.batch.ingest import Outcome
from lakehouse.delta.audit import Finding
from lakehouse.delta.commits import Totals
from lakehouse.delta.ledger import count_rows, read_ledger
from lakehouse.topic.offsets import Plan

Facts = Mapping[str, Any]


def materialized(spec: dg.AssetSpec, uri: str, facts: Facts) -> dg.MaterializeResult[Any]:
    """Report a table as materialized at the version it has now; ``facts`` is what the run did.

    A table that does not exist, as nothing was ever written to it, has no rows and version -1.
    """
    version = read_ledger(uri, spec.key.path[-1]).version
    metadata = {"dagster/row_count": count_rows(uri), "dagster/uri": uri, "table_version": version, **facts}
    if "dagster/column_lineage" in spec.metadata:
        metadata["dagster/column_lineage"] = spec.metadata["dagster/column_lineage"]
    return dg.MaterializeResult(asset_key=spec.key, metadata=metadata, data_version=dg.DataVersion(str(version)))


def checked(
    found: Finding, asset: str, severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
) -> dg.AssetCheckResult:
    """Tell a finding as the result of a declared check; ``severity`` is how bad it is where it failed."""
    return dg.AssetCheckResult(
        asset_key=asset, check_name=found.check, passed=found.passed, severity=severity, description=found.detail
    )


def accounting(outcomes: Sequence[Outcome], totals: Totals) -> dict[str, Any]:
    """Account for every record of a run's batches, for base rows apart, and for all batches so far."""
    batches = [outcome.entry for outcome in outcomes if outcome.plan]
    base = [outcome.entry for outcome in outcomes if outcome.entry.commit.kind == "base"]
    return {
        "batches": len(batches),
        "gaps": sum(outcome.entry.commit.kind == "gap" for outcome in outcomes),
        "read": sum(entry.commit.read for entry in batches),
        "rejected": sum(entry.commit.rejected for entry in batches),
        "duplicate": sum(entry.commit.duplicate for entry in batches),
        "late": sum(entry.commit.late for entry in batches),
        "source_rows": sum(entry.metrics.source_rows for entry in batches),
        "inserted": sum(entry.metrics.inserted for entry in batches),
        "updated": sum(entry.metrics.updated for entry in batches),
        "stale": sum(entry.metrics.stale for entry in batches),
        "base_rows_inserted": sum(entry.metrics.inserted for entry in base),
        "base_rows_updated": sum(entry.metrics.updated for entry in base),
        **{f"total_{name}": count for name, count in totals.model_dump().items()},
    }


def reading(outcomes: Sequence[Outcome], plan: Plan) -> dict[str, Any]:
    """Tell the lag before and after, and what was read of each partition; ``plan`` was made before."""
    batches = [outcome for outcome in outcomes if outcome.plan]
    parts: dict[int, tuple[int, int]] = {}
    for part in (part for outcome in batches if outcome.plan for part in outcome.plan.ranges):
        start, _ = parts.get(part.partition, (part.start, part.end))
        parts[part.partition] = (start, part.end)
    rows = [dg.TableRecord({"partition": p, "start": s, "end": e}) for p, (s, e) in sorted(parts.items())]
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "int") for name in ("partition", "start", "end")])
    return {
        "lag_before": plan.span,
        "lag_after": batches[-1].lag_after if batches else plan.span,
        "ranges": dg.MetadataValue.table(rows, schema=schema),
    }


def one_line(outcome: Outcome) -> str:
    """Say what a batch did, for the run's log."""
    commit, counted = outcome.entry.commit, outcome.entry.metrics
    if commit.kind == "gap":
        gone = ", ".join(f"partition {part.partition} {part.start} to {part.end}" for part in commit.gap)
        return f"gap {commit.number} is version {outcome.entry.version}: offsets that are gone are stepped over, {gone}"
    return (
        f"{commit.kind} {commit.number} is version {outcome.entry.version}: {commit.read:,} records read, "
        f"{commit.rejected:,} rejected, {commit.duplicate:,} duplicate, {commit.late:,} late, "
        f"{counted.inserted:,} rows inserted, {counted.updated:,} updated, {counted.stale:,} stale; "
        f"lag {outcome.lag_after:,}, {outcome.seconds:.1f} s"
    )
