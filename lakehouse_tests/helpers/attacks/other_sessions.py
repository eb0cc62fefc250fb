"""Spark sessions of other code in the same process, and the Dagster resource that works next to them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse.defs.resources import LakehouseResource
from lakehouse.settings import Settings
from lakehouse.spark.own_session import activate, restore_active_state
from lakehouse_tests.helpers.brokers.streams import Stream

WRONG_SETTINGS = {
    "spark.sql.constraintPropagation.enabled": "true",
    "spark.sql.session.timeZone": "Europe/Berlin",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.databricks.delta.write.utcTimestampPartitionValues": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.defaultCatalog": "nowhere",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.variable.substitute": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.sources.partitionOverwriteMode": "DYNAMIC",
    "spark.databricks.delta.autoCompact.enabled": "true",
    "spark.databricks.delta.schema.autoMerge.enabled": "true",
    "spark.sql.adaptive.optimizer.excludedRules": "",
}
"""Every setting that a session of lakehouse requires, with a wrong value."""


@contextmanager
def other_session(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Activate another session with these settings for the duration of the block."""
    session = spark.newSession()
    for name, value in conf.items():
        session.conf.set(name, value)
    with restore_active_state():
        activate(session)
        yield session


@contextmanager
def resource_of(settings: Settings) -> Iterator[LakehouseResource]:
    """Open the resource as a run does, and close it at the end of the block."""
    resource = LakehouseResource.with_settings(settings)
    with resource.from_resource_context_cm(dg.build_init_resource_context()) as opened_resource:
        yield opened_resource


def merge_by_resource(stream: Stream, *values: bytes) -> None:
    """Send records and merge them with the session of the resource, as a run does."""
    stream.send(*values)
    with resource_of(stream.settings) as resource:
        replace(stream, spark=resource.table_context(stream.table).spark).merge()
