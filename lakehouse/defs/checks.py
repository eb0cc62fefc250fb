"""Checks that run separately from the assets: they report the findings of ``audit`` and ``verify``, and write nothing.

The step that writes rows checks the rows that it touched (``assets``). This module has the checks of whole tables,
whose cost grows with the tables, and a job and a schedule for them.

To add a check of the merged table, write its finding in ``ledger.audit`` if the history proves it, else in
``operations.verify``, and its name in ``declaration.names.CHECK_NAMES``. If it only warns, ``steps.WARNINGS``
has it too. The pages of Dagster and of troubleshooting describe each check.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from lakehouse.declaration import Rollup, Sink, StreamTable, TableRows
from lakehouse.defs.freshness import FRESH, HELD_CHECK, LAG, held_checks, promise_checks
from lakehouse.defs.registration import registered_check
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.specs import CatalogEntry
from lakehouse.defs.steps import EVALUATED_AT, VERSION, check_result
from lakehouse.defs.waiting import CHECK, planning_check
from lakehouse.errors import LakehouseError
from lakehouse.ingest.topics import split_by_topic
from lakehouse.kafka import PATIENCE
from lakehouse.ledger.audit import Finding, audit, every_change_kept, finding
from lakehouse.ledger.ledger import ledger_of
from lakehouse.operations import verify
from lakehouse.operations.compare import equals_database
from lakehouse.operations.verify import ROWS_IN_SNAPSHOT, VALUES_SENT, verify_snapshot, verify_values
from lakehouse.settings import Settings
from lakehouse.sinks.outlets import delivery_of
from lakehouse.sources.table_sources import read_states
from lakehouse.storage.table_context import TableContext, merged_ledger

_CHECKS_OF_TICKS = (CHECK, HELD_CHECK, FRESH, LAG)  # each tick evaluates them, and reports a new result
_DAILY = "0 4 * * *"  # UTC; one hour after maintenance
_AUDIT_DOCS = {
    "records_accounted": "Every record has an outcome: records read = filtered + rejected + superseded + rows merged.",
    "rows_accounted": "Every merged row has one outcome: inserted, updated, deleted, stale, or a delete without a row.",
    "ranges_contiguous": "Each batch starts where the batch before it ended. It fails at a gap or an overlap.",
    "totals_match": "The totals that each commit carries on equal the sums of the batches before it.",
    "log_unchanged": "No entry of the log is another one than when the next commit was planned on it.",
}
_AUDIT_ADVICE = (
    "If it fails, repair the table, or accept the difference: lakehouse repair difference {table}."
    " To see all differences: lakehouse audit {table}."
)
_KEYS_DOC = (
    "No key (in a log table, no record) occurs in two rows, and each row is in its partition. If it fails, restore a"
    " version before the wrong write (the result has the command), then run lakehouse merge {table}."
)
_CHANGES_DOCS = {
    ROWS_IN_SNAPSHOT: "The newest snapshot of the database has every row that is older than it. It warns if deletes"
    " never arrived, for example because records expired. To see the rows: lakehouse compare {table}.",
    VALUES_SENT: "The value of each kept column was sent at least once. It warns if a value is NULL only because the"
    " database never sent it. Then let Debezium take an incremental snapshot of the rows.",
}
_WARNING_DOCS = {
    "rejected_share": "At most 1% of the records that were read in the last 24 hours are rejected. If it warns, see"
    " the reasons: lakehouse rejected {table}.",
    "producer_time": "No producer's clock decides which record is newer. It warns if producers date the records. Then"
    " set message.timestamp.type=LogAppendTime on the topic, or declare a version column or order='offset'.",
}
_VERSION_DOCS = {
    "versions_decide": "The version decides which record of a key is newer. It warns if some had an equal version and"
    " other values in the last 24 hours. Then have the producer write a finer version.",
}


class StandingResults:
    """Repeats the newest result of each check once its asset was materialized: Dagster shows no older one as current.

    One object serves all ticks of a sensor, and remembers for which materialization it has repeated them.
    """

    def __init__(self, check_keys: Iterable[dg.AssetCheckKey]) -> None:
        self._check_keys: dict[dg.AssetKey, list[dg.AssetCheckKey]] = {}
        for key in sorted(check_keys):
            self._check_keys.setdefault(key.asset_key, []).append(key)
        self._repeated_for: dict[dg.AssetKey, int] = {}

    def repeat(self, instance: dg.DagsterInstance) -> None:
        """Report each result that is older than the newest materialization of its asset again, with its time.

        Leaves out a check that a run is about to evaluate. A second call reports nothing.
        """
        for record in instance.get_asset_records([*self._check_keys]):
            key, materialization = record.asset_entry.asset_key, record.asset_entry.last_materialization_record
            if materialization and self._repeated_for.get(key) != materialization.storage_id:
                for check_key in self._check_keys[key]:
                    _repeat(instance, check_key, materialization)
                self._repeated_for[key] = materialization.storage_id


def _repeat(instance: dg.DagsterInstance, key: dg.AssetCheckKey, materialization: dg.EventLogRecord) -> None:
    record = instance.get_latest_asset_check_evaluation_record(key)
    result: object = record.evaluation if record else None
    if record is None or not isinstance(result, dg.AssetCheckEvaluation):
        return
    if _is_current(record, result, materialization):
        return
    description, evaluated_at = result.description or "", record.create_timestamp
    if key.name not in _CHECKS_OF_TICKS and EVALUATED_AT not in result.metadata:
        version = result.metadata.get(VERSION)
        time = f"{datetime.fromtimestamp(evaluated_at, UTC):%Y-%m-%d %H:%M} UTC"
        description = f"{f'At version {version.value}, ' if version else 'At '}{time}: {description}"
    metadata = {EVALUATED_AT: dg.MetadataValue.timestamp(evaluated_at), **result.metadata}
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            result.asset_key,
            result.check_name,
            result.passed,
            metadata,
            AssetCheckEvaluationTargetMaterializationData(
                storage_id=materialization.storage_id,
                run_id=materialization.run_id,
                timestamp=materialization.timestamp,
            ),
            severity=result.severity,
            description=description,
        )
    )


def _is_current(
    record: AssetCheckExecutionRecord, result: dg.AssetCheckEvaluation, materialization: dg.EventLogRecord
) -> bool:
    """Whether Dagster takes a result for one of the newest materialization."""
    if record.run_id == materialization.run_id:
        return True
    target = result.target_materialization_data
    if target:
        return target.storage_id == materialization.storage_id
    return record.create_timestamp > materialization.timestamp


def build_checks(entry: CatalogEntry) -> list[dg.AssetChecksDefinition]:
    """Build all checks of a declared table that run separately from its assets.

    The merge job has only the first: it leaves out those of whole tables and histories, and those the sensor reports.
    """
    rollups = (rollup_check(entry, rollup) for rollup in entry.table.rollups)
    feed = [] if entry.table.is_log else [changes_check(entry)]
    can_compare = entry.has_database and entry.table.has_changes and not entry.table.format.documents
    database = [database_check(entry)] if can_compare else []
    sinks = (sink_check(entry, outlet) for outlet in entry.outlets if isinstance(outlet, Sink) and outlet.enabled)
    waiting = [planning_check(entry), *held_checks(entry), *promise_checks(entry)]
    registered = [registered_check(entry)] if entry.has_catalog else []
    return [warning_checks(entry), *waiting, merged_checks(entry), *feed, *rollups, *database, *sinks, *registered]


def build_verification(entry: CatalogEntry, checks: Sequence[dg.AssetChecksDefinition]) -> dg.Definitions:
    """Build the job that checks the whole tables of a declaration, and its schedule."""
    table = entry.table
    job = dg.define_asset_job(
        entry.verify_job,
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.checks(*checks),
        description=f"Checks every row, group and commit of {table.name} and its derived tables.",
    )
    daily = dg.ScheduleDefinition(
        name=f"{table.name}_checks_daily",
        job=job,
        cron_schedule=_DAILY,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Requests a run of {job.name} every night.",
    )
    return dg.Definitions(jobs=[job], schedules=[daily])


def warning_checks(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """Checks that only warn. They read the newest commits and the state of the topic: cheap enough for every run."""
    table = entry.table
    has_versions = bool(table.version_columns or (table.key and isinstance(table.source, TableRows)))
    version_docs = _VERSION_DOCS if has_versions else {}
    specs = _specs(entry, _with_table(_WARNING_DOCS | version_docs, table))

    @dg.multi_asset_check(name=f"{table.name}_warnings", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            ledger = ledger_of(lakehouse.settings, table.name)
            findings = [verify.rejected_share(ledger), _producer_time(lakehouse.settings, table)]
            findings += [verify.versions_decide(ledger)] if has_versions else []
        yield from _selected_results(context, findings, entry, version=ledger.version)

    return check


def merged_checks(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """Prove that the merged table is correct, from its whole history and from all its rows."""
    table = entry.table
    audit_docs = {name: f"{doc} {_AUDIT_ADVICE}" for name, doc in _AUDIT_DOCS.items()}
    change_docs = _CHANGES_DOCS if table.has_changes else {}
    docs = _with_table({**audit_docs, "keys_unique": _KEYS_DOC, **change_docs}, table)
    specs = _specs(entry, docs | {check.name: check.doc or check.sql for check in table.checks})
    warnings = {check.name for check in table.checks if check.severity == "warn"} | _CHANGES_DOCS.keys()

    @dg.multi_asset_check(name=f"{table.name}_checks", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            ledger = ledger_of(lakehouse.settings, table.name, whole=True)
            findings = [*audit(ledger), *_row_findings(lakehouse, table, _selected_names(context), ledger.exists)]
        yield from _selected_results(context, findings, entry, warnings, ledger.version)

    return check


def _row_findings(
    lakehouse: LakehouseResource, table: StreamTable, selected_names: Collection[str], exists: bool
) -> Iterator[Finding]:
    """The findings of the selected checks in the rows of the merged table."""
    checks: dict[str, Callable[[TableContext], Finding]] = {"keys_unique": verify.verify_keys}
    checks |= {ROWS_IN_SNAPSHOT: verify_snapshot, VALUES_SENT: verify_values} if table.has_changes else {}
    checks |= {check.name: partial(verify.verify_rows, check=check) for check in table.checks}
    for name in (name for name in checks if name in selected_names):
        yield checks[name](lakehouse.table_context(table)) if exists else finding(name, [], "there are no rows yet")


def changes_check(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """Warn if the change feed contains net differences, because the single changes were gone."""
    table = entry.table
    doc = (
        f"Every row of the feed is a single change that {table.name} recorded. It warns if the feed has net"
        " differences, because the single changes were gone before the feed read them. Run the job more often than the"
        " retention of the table."
    )
    spec = entry.check_spec("every_change_kept", table.changes_name, doc)
    return _single_check(
        spec, lambda lakehouse: every_change_kept(ledger_of(lakehouse.settings, table.changes_name, whole=True))
    )


def rollup_check(entry: CatalogEntry, rollup: Rollup) -> dg.AssetChecksDefinition:
    """Recompute an aggregate from the version that it consumed, and compare."""
    table = entry.table
    doc = (
        f"Every row of {rollup.name} equals a recomputation from {table.name}, at the version that it consumed. If it"
        f" fails, restore {rollup.name} as its result says, then materialize it."
    )
    spec = entry.check_spec("rollup_equals_recomputation", rollup.name, doc)
    return _single_check(spec, lambda lakehouse: verify.verify_rollup(lakehouse.table_context(table), rollup))


def database_check(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """Compare the table with the table of the database that it follows."""
    table = entry.table
    doc = (
        f"Every row of {table.name} equals the row in the database of LAKEHOUSE_DATABASE_URL, value by value. If it"
        f" fails, merge, then see each difference: lakehouse compare {table.name}."
    )
    spec = entry.check_spec("equals_database", table.name, doc)
    return _single_check(spec, lambda lakehouse: equals_database(lakehouse.settings, table))


def sink_check(entry: CatalogEntry, sink: Sink) -> dg.AssetChecksDefinition:
    """Compare the target of a sink with its table, both as a whole."""
    doc = (
        f"Every row of {sink.of} is in the {sink.to.place}, value by value, at the version that it has. If it fails,"
        f" run lakehouse export {sink.name} --whole."
    )
    spec = entry.check_spec("equals_table", sink.name, doc)
    return _single_check(spec, lambda lakehouse: delivery_of(lakehouse.settings, sink, [entry.table]).equals_table())


def _single_check(spec: dg.AssetCheckSpec, examine: Callable[[LakehouseResource], Finding]) -> dg.AssetChecksDefinition:

    @dg.asset_check(name=spec.name, asset=spec.asset_key, description=spec.description)
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        with explained():
            return check_result(examine(lakehouse), spec.asset_key)

    return check


def _producer_time(settings: Settings, table: StreamTable) -> Finding:
    try:
        parts = split_by_topic(settings, table)
        states = read_states(settings, parts, [merged_ledger(settings, part) for part in parts], PATIENCE)
        findings = [verify.producer_time(state, table) for state in states]
        return next((result for result in findings if not result.passed), findings[0])
    except LakehouseError as error:
        return Finding("producer_time", passed=False, detail=str(error))


def _with_table(docs: Mapping[str, str], table: StreamTable) -> dict[str, str]:
    return {name: doc.format(table=table.name) for name, doc in docs.items()}


def _specs(entry: CatalogEntry, docs: Mapping[str, str]) -> list[dg.AssetCheckSpec]:
    return [entry.check_spec(name, entry.table.name, doc) for name, doc in docs.items()]


def _selected_names(context: dg.AssetCheckExecutionContext) -> set[str]:
    return {key.name for key in context.selected_asset_check_keys}


def _selected_results(
    context: dg.AssetCheckExecutionContext,
    findings: Iterable[Finding],
    entry: CatalogEntry,
    warnings: Collection[str] = (),
    version: int | None = None,
) -> Iterator[dg.AssetCheckResult]:
    """The results of the selected checks at a version. A failure of the checks in ``warnings`` only warns."""
    selected_findings = (result for result in findings if result.check in _selected_names(context))
    for result in selected_findings:
        yield check_result(result, entry.merged_key, is_warning=result.check in warnings, version=version)
