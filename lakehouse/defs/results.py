"""What a materialization tells: the table as it is now, and what the run did to it. No JVM."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse.batch.ingest import Outcome, others_beyond, others_of
from lakehouse.delta.accounting import sums
from lakehouse.delta.active import count_rows
from lakehouse.delta.audit import Finding
from lakehouse.delta.commits import Totals
from lakehouse.delta.ledger import read_ledger
from lakehouse.settings import Settings
from lakehouse.topic.offsets import Plan
from lakehouse.upkeep.plan import Change

Facts = Mapping[str, Any]
# worth a look; the tables are right all the same
_WARNINGS = {"rejected_share", "producer_time", "every_change_kept", "changes_kept"}


def materialized(spec: dg.AssetSpec, settings: Settings, facts: Facts) -> dg.MaterializeResult[Any]:
    """Report an asset as materialized, a table at the version it has now; ``facts`` is what the run did.

    A table that does not exist, as nothing was ever written to it, has no rows and version -1.
    """
    if "dagster/table_name" not in spec.metadata:
        return dg.MaterializeResult(asset_key=spec.key, metadata=facts)
    name = spec.key.path[-1]
    uri = settings.table_uri(name)
    version = read_ledger(uri, name).version
    metadata = {"dagster/row_count": count_rows(uri), "dagster/uri": uri, "table_version": version, **facts}
    if "dagster/column_lineage" in spec.metadata:
        metadata["dagster/column_lineage"] = spec.metadata["dagster/column_lineage"]
    return dg.MaterializeResult(asset_key=spec.key, metadata=metadata, data_version=dg.DataVersion(str(version)))


def checked(found: Finding, asset: dg.AssetKey, *, doubtful: bool = False) -> dg.AssetCheckResult:
    """Tell a finding as the result of a declared check; where it is ``doubtful``, a failure is only a warning."""
    doubtful = doubtful or found.check in _WARNINGS
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=found.check,
        passed=found.passed,
        severity=dg.AssetCheckSeverity.WARN if doubtful else dg.AssetCheckSeverity.ERROR,
        description=found.detail,
    )


def accounting(outcomes: Sequence[Outcome], totals: Totals) -> dict[str, Any]:
    """Account for every record of a run's batches, for base rows apart, and for all batches so far."""
    base = sums(outcome.entry for outcome in outcomes if outcome.entry.commit.kind == "base")
    return {
        "batches": sum(outcome.plan is not None for outcome in outcomes),
        "gaps": sum(outcome.entry.commit.kind == "gap" for outcome in outcomes),
        **sums(outcome.entry for outcome in outcomes if outcome.plan),
        "base_rows_inserted": base["inserted"],
        "base_rows_updated": base["updated"],
        **{f"total_{name}": count for name, count in totals.model_dump().items()},
        **_other_fields(outcomes),
    }


def _other_fields(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Fields of the records that no column takes, where there are any."""
    rows = [dg.TableRecord({"field": name, "records": many}) for name, many in others_of(outcomes).items()]
    schema = dg.TableSchema(columns=[dg.TableColumn("field", "string"), dg.TableColumn("records", "int")])
    beyond = others_beyond(outcomes)
    named = {"other_fields": dg.MetadataValue.table(rows, schema=schema)} if rows else {}
    return {**named, "other_fields_unnamed": beyond} if beyond else named


def declared(changes: Sequence[Change]) -> dict[str, Any]:
    """What another declaration changed in tables that were there, where it changed any."""
    rows = [dg.TableRecord({"table": each.table, "change": each.kind, "detail": each.detail}) for each in changes]
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in ("table", "change", "detail")])
    return {"declaration_changes": dg.MetadataValue.table(rows, schema=schema)} if rows else {}


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
