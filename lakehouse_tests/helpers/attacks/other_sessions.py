"""Spark sessions that somebody else made in the same process, and the resource that works beside them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse.defs.resources import LakehouseResource
from lakehouse.settings import Settings
from lakehouse.spark.own_session import activate, others_active
from lakehouse_tests.helpers.brokers.streams import Stream

WRONG = {
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
"""Each setting that a session of ours has to have, with another value."""


@contextmanager
def other_session(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with settings of its own, which is the active one meanwhile."""
    made = spark.newSession()
    for name, value in conf.items():
        made.conf.set(name, value)
    with others_active():
        activate(made)
        yield made


@contextmanager
def resource_of(settings: Settings) -> Iterator[LakehouseResource]:
    """The resource as a run has it, from its beginning to its end."""
    made = LakehouseResource.with_settings(settings)
    with made.from_resource_context_cm(dg.build_init_resource_context()) as opened:
        yield opened


def merge_by_resource(stream: Stream, *values: bytes) -> None:
    """Send records and merge them as a run does."""
    stream.send(*values)
    with resource_of(stream.settings) as opened:
        replace(stream, spark=opened.table_context(stream.table).spark).merge()
