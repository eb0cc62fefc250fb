"""The records of a plan as a Spark DataFrame."""

import json
from typing import TYPE_CHECKING

from lakehouse.decoding import staged
from lakehouse.kafka.clients import spark_security
from lakehouse.kafka.few_records import read_few_records
from lakehouse.ledger.positions import Plan
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (
    f"timestamp AS {staged.TIME}",
    f"partition AS {staged.PARTITION}",
    f"offset AS {staged.POSITION}",
    f"CAST(NULL AS BIGINT) AS {staged.SEQUENCE}",
    f"key AS {staged.KEY}",
    f"value AS {staged.VALUE}",
    f"headers AS {staged.HEADERS}",
)
_READ_OPTIONS = {
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
    # With the defaults, small reads are slow and broken ones hang for minutes. A dead leader is replaced after
    # 9 seconds (the broker's default): a read waits longer than that, and then fails.
    "kafka.fetch.max.wait.ms": "50",
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "10000",
    "kafkaConsumer.pollTimeoutMs": "12000",
    "fetchOffset.numRetries": "1",
}
OFFSETS_A_TASK = 50_000  # a longer range is split, so that one partition keeps all cores busy


def read_records(spark: "SparkSession", settings: Settings, plan: Plan) -> "DataFrame":
    """Return exactly the committed records in the ranges of the plan: one row for each record.

    Columns: ``_partition`` INT, ``_position`` BIGINT (the offset), ``_sequence`` BIGINT (NULL: a topic has no other
    order), ``_time`` TIMESTAMP, ``_key`` BINARY (NULL: none), ``_value`` BINARY (NULL: none),
    ``_headers`` ARRAY<STRUCT<key STRING, value BINARY>>.
    If records or the broker are gone, the action that reads the DataFrame fails.
    """
    few_records = read_few_records(settings, plan)
    if few_records is not None:
        from lakehouse.kafka.arrow_records import to_arrow  # noqa: PLC0415 - Arrow is slow to import

        return spark.createDataFrame(to_arrow(few_records))
    ranges = [offsets for offsets in plan.ranges if offsets.span] or plan.ranges
    plan_options = {
        "maxRecordsPerPartition": str(OFFSETS_A_TASK),
        "kafka.bootstrap.servers": bootstrap_servers(settings),
        "assign": json.dumps({plan.stream: [offsets.partition for offsets in ranges]}),
        "startingOffsets": json.dumps({plan.stream: {str(offsets.partition): offsets.start for offsets in ranges}}),
        "endingOffsets": json.dumps({plan.stream: {str(offsets.partition): offsets.end for offsets in ranges}}),
    }
    user_options = {f"kafka.{name}": value for name, value in settings.client_properties.items()}
    options = {**_READ_OPTIONS, **user_options, **plan_options, **spark_security(settings)}
    return spark.read.format("kafka").options(**options).load().selectExpr(*_COLUMNS)
