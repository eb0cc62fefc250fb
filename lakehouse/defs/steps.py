"""The step of an asset: start, do the work, explain errors, report the results. All assets share it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import dagster as dg
from dagster._core.storage.tags import SCHEDULE_NAME_TAG, SENSOR_NAME_TAG

from lakehouse.declaration import StreamTable
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.specs import CatalogEntry, step_name
from lakehouse.errors import AccountingError, LakehouseError
from lakehouse.ledger.audit import Finding
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log_copies import look_once
from lakehouse.ledger.versions import measure
from lakehouse.operations.status import find_unaccepted, reason_to_accept
from lakehouse.settings import Settings
from lakehouse.storage.lock_holder import name_work
from lakehouse.storage.table_context import TableContext

DATA_VERSION = "dagster/data_version"  # the tag that shows Dagster that an asset changed
# metadata of a result: the version that was checked; of a repeated one, when it was evaluated
VERSION, EVALUATED_AT = "table_version", "evaluated_at"
Facts = Mapping[str, Any]
# If one of these checks fails, it only warns: the rows of the tables are correct.
WARNINGS = {"rejected_share", "producer_time", "versions_decide", "every_change_kept", "changes_kept", "registered"}


class NoConfig(dg.Config):
    """The step has no configuration."""


@dataclass(frozen=True)
class StepInput:
    """What a step works with: Dagster's context, its configuration, the resource and the table."""

    context: dg.AssetExecutionContext
    config: Any
    lakehouse: LakehouseResource
    table: StreamTable

    @property
    def table_context(self) -> TableContext:
        """The context of the table, whose commits name the run. Starts the Spark session of the run."""
        return self.lakehouse.table_context(self.table, run_text(self.context.run, self.settings))

    @property
    def settings(self) -> Settings:
        """The settings of this environment."""
        return self.lakehouse.settings


@dataclass(frozen=True)
class StepResult:
    """What a step did: the metadata of each asset by name, and the findings of the checks that run with the step."""

    metadata: Mapping[str, Facts]
    findings: Sequence[Finding] = ()


def run_text(run: dg.DagsterRun, settings: Settings) -> str:
    """What commits say of a run: its id, and the user of its tag if users are recorded."""
    user = run.tags.get("user") if settings.record_user else None
    return f"{run.run_id} by {user}" if user else run.run_id


def name_run(run_id: str) -> None:
    """Record this run as the holder of the locks that it takes, for those who wait for them."""
    name_work(f"run {run_id[:8]} of Dagster")


def require_accepted(run: dg.DagsterRun, settings: Settings, table: StreamTable) -> None:
    """Raise ``LakehouseError`` if a sensor or schedule requested a run whose process has a newer declaration than it.

    A run starts in a process of its own, which reads the files of declarations again. A person's run accepts them.
    """
    is_of_person = not {SENSOR_NAME_TAG, SCHEDULE_NAME_TAG} & run.tags.keys()
    reason = None if is_of_person else reason_to_accept(table, find_unaccepted(settings, table))
    if reason:
        raise LakehouseError(reason, where=f"run {run.run_id[:8]}")


def build_step(
    entry: CatalogEntry,
    work: Callable[[StepInput], StepResult],
    specs: Sequence[dg.AssetSpec],
    checks: Sequence[dg.AssetCheckSpec] = (),
    config: type[dg.Config] = NoConfig,
) -> dg.AssetsDefinition:
    """Build the step that writes these assets. The pool of the table runs one step at a time.

    An error that a person can act on becomes the text of the failure. If a commit does not account for its records, the
    checks of the step fail with it. The step reports each asset at its version after the work. A run may select some of
    the assets: the step does all its work and reports all of them, because it writes them together. It reports no asset
    for which the result has no metadata. If the assets have
    partitions, one run works on all chosen ones.
    """

    def step(context: dg.AssetExecutionContext, config: Any, lakehouse: LakehouseResource) -> Iterator[Any]:
        started_at = perf_counter()
        name_run(context.run.run_id)
        with explained():
            try:
                with look_once():
                    result = work(StepInput(context, config, lakehouse, entry.table))
            except AccountingError as error:
                failures = [Finding(check.name, passed=False, detail=str(error)) for check in checks]
                yield from _report_findings(context, failures, specs[0].key)
                raise
            duration = {"seconds": round(perf_counter() - started_at, 2)}
            for spec in (spec for spec in specs if spec.key.path[-1] in result.metadata):
                metadata = {**result.metadata[spec.key.path[-1]], **duration}
                materialized = materialize_result(spec, lakehouse.settings, metadata)
                if spec.key in context.selected_asset_keys:
                    yield materialized
                else:
                    context.log_event(as_event(materialized))
        yield from _report_findings(context, result.findings, specs[0].key)

    step.__annotations__["config"] = config  # Dagster reads the type of the configuration from the annotation
    name = step_name(specs[0].key)
    policy = dg.BackfillPolicy.single_run() if specs[0].partitions_def else None
    options: dict[str, Any] = {"pool": entry.table.name, "can_subset": len(specs) > 1, "backfill_policy": policy}
    return dg.multi_asset(name=name, specs=specs, check_specs=checks, **options)(step)


def _report_findings(
    context: dg.AssetExecutionContext, findings: Iterable[Finding], asset: dg.AssetKey
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of the selected checks; report the others as events, so that no finding is lost."""
    for finding in findings:
        if dg.AssetCheckKey(asset, finding.check) in context.selected_asset_check_keys:
            yield check_result(finding, asset)
        else:
            context.instance.report_runless_asset_event(check_evaluation(finding, asset))


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


def check_result(
    finding: Finding, asset: dg.AssetKey, *, is_warning: bool = False, version: int | None = None
) -> dg.AssetCheckResult:
    """Convert a finding about a version into the result of a declared check; ``is_warning``: a failure only warns."""
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=finding.check,
        passed=finding.passed,
        severity=_severity(finding, is_warning=is_warning),
        description=finding.detail,
        metadata={} if version is None else {VERSION: version},
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
    warns = is_warning or finding.check in WARNINGS
    return dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR
