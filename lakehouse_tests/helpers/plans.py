"""Measure the size of the plans of Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

_UNLIMITED = {
    "spark.sql.debug.maxToStringFields": "100000",
    "spark.sql.maxPlanStringLength": "2000000000",
    "spark.sql.maxMetadataStringLength": "1000000",
}


@contextmanager
def plan_sizes(spark: SparkSession) -> Iterator[list[int]]:
    """Yield a list that receives, at the end, the plan length of every statement of the block; no other may run."""
    store = spark._jsparkSession.sharedState().statusStore()
    values_before = {name: spark.conf.get(name) or "" for name in _UNLIMITED}
    last_id = max((execution.executionId() for execution in executions(store)), default=-1)
    for name, value in _UNLIMITED.items():
        spark.conf.set(name, value)
    sizes: list[int] = []
    try:
        yield sizes
    finally:
        for name, value in values_before.items():
            spark.conf.set(name, value)
        new_executions = [execution for execution in executions(store) if execution.executionId() > last_id]
        assert min(execution.executionId() for execution in new_executions) == last_id + 1, (
            "Spark has dropped some executions"
        )
        sizes += [len(execution.physicalPlanDescription()) for execution in new_executions]


def executions(store: Any) -> list[Any]:
    """Return the newest executions; the settings of Spark limit their number."""
    stored_executions = store.executionsList()
    return [stored_executions.apply(number) for number in range(stored_executions.size())]
