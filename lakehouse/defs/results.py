"""What a materialization tells: the table as it is now, and what the run did to it. No JVM."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.ingest.batches import Outcome, others_beyond, others_of
from lakehouse.ledger.accounting import sums
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.audit import Finding
from lakehouse.ledger.commits import OF_RECORDS, Entry, Totals
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.positions import Plan
from lakehouse.operations.open_rejections import count_rejected
from lakehouse.operations.planned_changes import Change
from lakehouse.settings import Settings

DATA_VERSION = "dagster/data_version"  # the tag by which Dagster sees that an asset changed
Facts = Mapping[str, Any]
# worth a look; the tables are right all the same
_WARNINGS = {"rejected_share", "producer_time", "every_change_kept", "changes_kept"}


def materialized(spec: dg.AssetSpec, settings: Settings, facts: Facts) -> dg.MaterializeResult[Any]:
    """Report an asset as materialized, a table at the version it has now; ``facts`` is what the run did.

    A table that does not exist, as nothing was ever written to it, has no rows and version -1.
    """
    if "dagster/table_name" not in spec.metadata:
        return dg.MaterializeResult(asset_key=spec.key, metadata=facts)
    now = table_facts(spec, settings)
    version = dg.DataVersion(str(now["table_version"]))
    return dg.MaterializeResult(asset_key=spec.key, metadata={**now, **facts}, data_version=version)


def table_facts(spec: dg.AssetSpec, settings: Settings) -> dict[str, Any]:
    """A table as it is now: rows, place and version, and where its columns come from."""
    name = spec.key.path[-1]
    uri = settings.table_uri(name)
    lineage = "dagster/column_lineage"
    told = {"dagster/row_count": count_rows(uri), "dagster/uri": uri, "table_version": read_ledger(uri, name).version}
    return {**told, **({lineage: spec.metadata[lineage]} if lineage in spec.metadata else {})}


def checked(found: Finding, asset: dg.AssetKey, *, doubtful: bool = False) -> dg.AssetCheckResult:
    """Tell a finding as the result of a declared check; where it is ``doubtful``, a failure is only a warning."""
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=found.check,
        passed=found.passed,
        severity=_severity(found, doubtful=doubtful),
        description=found.detail,
    )


def evaluated(found: Finding, asset: dg.AssetKey) -> dg.AssetCheckEvaluation:
    """Tell the same as an event of no run."""
    severity = _severity(found)
    return dg.AssetCheckEvaluation(asset, found.check, found.passed, severity=severity, description=found.detail)


def _severity(found: Finding, *, doubtful: bool = False) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if doubtful or found.check in _WARNINGS else dg.AssetCheckSeverity.ERROR


def accounting(outcomes: Sequence[Outcome], totals: Totals) -> dict[str, Any]:
    """Account for every record of a run's batches, for base rows apart, and for all batches so far."""
    return {**committed([outcome.entry for outcome in outcomes], totals), **_other_fields(outcomes)}


def committed(entries: Sequence[Entry], totals: Totals) -> dict[str, Any]:
    """Account for every record that commits merged, for base rows apart, and for all batches so far."""
    merged = [entry for entry in entries if entry.commit.kind in OF_RECORDS]
    base = sums(entry for entry in entries if entry.commit.kind == "base")
    return {
        "batches": len(merged),
        "gaps": sum(entry.commit.kind == "gap" for entry in entries),
        **sums(merged),
        "base_rows_inserted": base["inserted"],
        "base_rows_updated": base["updated"],
        **{f"total_{name}": count for name, count in totals.model_dump().items()},
    }


def rejected(settings: Settings, table: StreamTable, merged: Ledger) -> dict[str, int]:
    """How many of the stored rejected records are still out, and how many passed since."""
    counted = count_rejected(settings, table, merged)
    return {"open": counted.open, "resolved": counted.resolved} if counted else {}


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
