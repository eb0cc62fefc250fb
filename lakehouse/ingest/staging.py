"""The decoded records of a batch, staged once; their schemas are resolved on the way."""

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.decoding.fields import TIMELESS
from lakehouse.decoding.formats.format import NO_SCHEMAS
from lakehouse.decoding.one_record import judge_record
from lakehouse.decoding.record_parts import HEADER, KEY
from lakehouse.decoding.rules import Rules
from lakehouse.ingest.decode import decode_records
from lakehouse.ingest.rejecting_rules import read_known
from lakehouse.ingest.schema_resolution import kept_schemas
from lakehouse.kafka import (
    CutPlan,
    Record,
    TimelessRecordError,
    cut_around,
    read_failures,
    read_records,
    timeless_detail,
)
from lakehouse.kafka.read import to_arrow
from lakehouse.ledger.commits import Kind
from lakehouse.ledger.positions import Plan
from lakehouse.sources.source import Undecoded
from lakehouse.storage.table_context import TableContext

_MAX_IDS = 10_000


def stage_records(context: TableContext, records: DataFrame | Undecoded, kind: Kind, keep_raw: str = "") -> DataFrame:
    """Decode records by the schemas that are kept for the table, and by new ones, and stage them in a checkpoint.

    The staged records contain the schema ids: if some of them are new, the records are decoded again. For a batch, the
    registry must confirm that kept schemas have not changed. ``keep_raw`` is that of ``decode_records``. A replay sends
    it no request: records with an unknown schema were rejected before. Raises ``RegistryError``.
    """
    table = context.table
    known_schemas = kept_schemas(context.settings, table) if table.has_schemas else NO_SCHEMAS
    known_values = read_known(context.settings, table) if table.rejects else ()
    decoded_records = decode_records(records, table, known_schemas, keep_raw, known_values).localCheckpoint()
    if not table.has_schemas or kind == "replay":
        return decoded_records
    from lakehouse.ingest.schema_resolution import resolve_schemas  # noqa: PLC0415 - the registry is slow to import

    schemas = resolve_schemas(context, known_schemas, _schema_ids(decoded_records, table), confirm=kind == "batch")
    if schemas.by_id.keys() > known_schemas.by_id.keys():
        decoded_records = decode_records(records, table, schemas, keep_raw, known_values).localCheckpoint()
    return _explain_rejections(decoded_records, table, schemas.unusable_reasons)


def _schema_ids(records: DataFrame, table: StreamTable) -> list[int]:
    """Return the schema ids of values and keys, the most common first; of filtered records, none was needed."""
    names = [staged.SCHEMA] if table.format.needs_schemas else []
    names += [staged.KEY_SCHEMA] if table.key_format else []
    needed_records = records.where(f"NOT {staged.REASON} <=> '{staged.FILTERED}'")
    ids = needed_records.select(F.explode(F.array(*names)).alias("id")).where("id IS NOT NULL")
    rows = ids.groupBy("id").count().orderBy(F.desc("count"), "id").limit(_MAX_IDS).collect()
    return [int(row[0]) for row in rows]


def _explain_rejections(records: DataFrame, table: StreamTable, unusable_reasons: Mapping[int, str]) -> DataFrame:
    """Set the reason and the detail of records with an unusable schema, without decoding them again."""
    if not unusable_reasons:
        return records
    # the detail of a value begins with its schema, that of a key with the column
    of_both = f"IF({staged.DETAIL} LIKE 'schema %', {staged.SCHEMA}, {staged.KEY_SCHEMA})"
    schema_id = staged.SCHEMA if not table.key_format else of_both if table.format.framed else staged.KEY_SCHEMA
    is_unusable = f"{staged.REASON} = 'unknown_schema' AND {schema_id} IN ({', '.join(map(str, unusable_reasons))})"
    cases = " ".join(f"WHEN {i} THEN {quoted(f'schema {i}: {reason}'[:500])}" for i, reason in unusable_reasons.items())
    explanation = f"CASE {schema_id} {cases} END"
    if table.key_format:  # the column stays in front
        fact = f"concat('schema ', {schema_id}, ' is not known')"
        is_unusable = f"{is_unusable} AND endswith({staged.DETAIL}, {fact})"
        explanation = f"substring(replace({staged.DETAIL}, {fact}, {explanation}), 1, 500)"
    return records.withColumns(
        {
            staged.DETAIL: F.expr(f"IF({is_unusable}, {explanation}, {staged.DETAIL})"),
            staged.REASON: F.expr(f"IF({is_unusable}, 'unusable_schema', {staged.REASON})"),
        }
    )


def stage_around_timeless(
    context: TableContext, plan: Plan, kind: Kind, failure: TimelessRecordError, keep_raw: str = ""
) -> tuple[Plan, DataFrame]:
    """Stage the records of a plan, as ``stage_records`` does, with the timeless ones among them as rejected.

    Returns the plan that was read: all of it, or its beginning if it has too many of them. Raises the same errors as
    ``cut_around`` and ``read_failures``. If none of the records that Spark read is timeless, raises Spark's own error:
    it has another cause then, and no record must be deleted for it.
    """
    cut = _cut_plan(context, plan, failure)
    try:
        with read_failures(cut.plan, failure.command):
            return cut.plan, _stage_cut(context, cut, kind, keep_raw)
    except TimelessRecordError as error:
        wrong_error = error
    raise wrong_error.__cause__ or wrong_error


def read_around_timeless(context: TableContext, plan: Plan, failure: TimelessRecordError) -> tuple[Plan, DataFrame]:
    """Read the records of a plan, as ``read_records`` does, without the timeless ones among them.

    Returns the plan that was read: all of it, or its beginning if it has too many of them. Raises the same errors as
    ``cut_around``; the action that reads the DataFrame may fail as with ``read_records``.
    """
    cut = _cut_plan(context, plan, failure)
    return cut.plan, _read_cut(context, cut)


def _cut_plan(context: TableContext, plan: Plan, failure: TimelessRecordError) -> CutPlan:
    cut = cut_around(context.settings, plan, failure.command)
    if not cut.timeless_records:
        raise failure.__cause__ or failure
    return cut


def _read_cut(context: TableContext, cut: CutPlan) -> DataFrame:
    spark, settings = context.spark, context.settings
    frames = [read_records(spark, settings, plan) for plan in cut.spark_plans]
    if cut.records_between or not frames:
        frames.append(spark.createDataFrame(to_arrow(cut.records_between)))
    return reduce(DataFrame.unionByName, frames)


def _stage_cut(context: TableContext, cut: CutPlan, kind: Kind, keep_raw: str) -> DataFrame:
    spark = context.spark
    staged_records = stage_records(context, _read_cut(context, cut), kind, keep_raw)
    rejected_records = to_arrow(cut.timeless_records)
    rules = context.table.rules()
    rejection_columns = {
        staged.REASON: pa.array([_reason_of(record, rules) for record in cut.timeless_records], pa.string()),
        staged.DETAIL: pa.array([timeless_detail(record.milliseconds) for record in cut.timeless_records], pa.string()),
        staged.LATE: pa.array([False] * len(rejected_records)),
    }
    for name, values in rejection_columns.items():
        rejected_records = rejected_records.append_column(name, values)
    return staged_records.unionByName(spark.createDataFrame(rejected_records), allowMissingColumns=True)


def _reason_of(record: Record, rules: Rules) -> str:
    """Return why a timeless record becomes no row: it is rejected, unless it certainly does not meet ``where``."""
    headers = {f"{HEADER}{name}": value for name, value in record.headers}
    verdicts = judge_record(record.value, rules, {KEY: record.key, **headers})
    return staged.FILTERED if {verdict.reason for verdict in verdicts} == {staged.FILTERED} else TIMELESS
