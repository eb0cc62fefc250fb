"""What a step reports to Dagster: the current state of the table, and what the run did. Without a JVM."""

import re
from collections.abc import Mapping
from typing import Any

import dagster as dg

from lakehouse.ledger.audit import Finding
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.versions import measure
from lakehouse.settings import Settings

DATA_VERSION = "dagster/data_version"  # the tag that shows Dagster that an asset changed
Facts = Mapping[str, Any]
# If one of these checks fails, it only warns: the rows of the tables are correct.
_WARNINGS = {"rejected_share", "producer_time", "versions_decide", "every_change_kept", "changes_kept"}


def materialize_result(spec: dg.AssetSpec, settings: Settings, metadata: Facts) -> dg.MaterializeResult[Any]:
    """Build the result of a materialized asset, for a table with its current version; ``metadata`` is from the run.

    A table that does not exist because nothing was written yet has no rows and version -1.
    """
    if "dagster/table_name" not in spec.metadata:
        return dg.MaterializeResult(asset_key=spec.key, metadata=metadata)
    table_metadata = table_facts(spec, settings)
    version = dg.DataVersion(str(table_metadata["table_version"]))
    return dg.MaterializeResult(asset_key=spec.key, metadata={**table_metadata, **metadata}, data_version=version)


def as_event(result: dg.MaterializeResult[Any]) -> dg.AssetMaterialization:
    """Convert the result of an asset into an event, for an asset that the run did not select."""
    tags = {DATA_VERSION: result.data_version.value} if result.data_version else {}
    return dg.AssetMaterialization(result.asset_key or "", metadata=result.metadata, tags=tags)


def table_facts(spec: dg.AssetSpec, settings: Settings) -> dict[str, Any]:
    """The current state of a table: row count, size, location, version, and the lineage of its columns."""
    name = spec.key.path[-1]
    uri = settings.table_uri(name)
    lineage = "dagster/column_lineage"
    size, ledger = measure(uri), read_ledger(uri, name)
    state = {
        "dagster/row_count": size.rows,
        "size_bytes": size.bytes,
        "dagster/uri": uri,
        "table_version": ledger.version,
        **({"table_id": ledger.table_id} if ledger.table_id else {}),
    }
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


def report_if_changed(instance: dg.DagsterInstance, finding: Finding, asset: dg.AssetKey) -> None:
    """Report a finding outside of a run, if it differs from the last result of its check.

    Words with digits, such as offsets, times and request ids, may differ. A difference in such words alone is not a new
    result.
    """
    record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(asset, finding.check))
    last: object = record.evaluation if record else None
    # If a run is going to evaluate the check, the latest evaluation is only planned.
    last_result = None
    if isinstance(last, dg.AssetCheckEvaluation):
        last_result = last.passed, _without_figures(last.description or "")
    if last_result != (finding.passed, _without_figures(finding.detail)):
        instance.report_runless_asset_event(check_evaluation(finding, asset))


def _without_figures(text: str) -> str:
    """The text without the words that contain a digit."""
    return re.sub(r"\w*\d[\w.,:]*", "", text)


def _severity(finding: Finding, *, is_warning: bool = False) -> dg.AssetCheckSeverity:
    warns = is_warning or finding.check in _WARNINGS
    return dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR
