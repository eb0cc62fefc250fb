"""How large the plans are that Spark makes."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_WHOLE = {
    "spark.sql.debug.maxToStringFields": "100000",
    "spark.sql.maxPlanStringLength": "2000000000",
    "spark.sql.maxMetadataStringLength": "1000000",
}


@contextmanager
def plan_sizes(spark: SparkSession) -> Iterator[list[int]]:
    """Fills the list with the characters of the plan of each statement that runs meanwhile, on a session of its own."""
    store = spark._jsparkSession.sharedState().statusStore()
    before = {name: spark.conf.get(name) or "" for name in _WHOLE}
    first = store.executionsCount()
    for name, value in _WHOLE.items():
        spark.conf.set(name, value)
    sizes: list[int] = []
    try:
        yield sizes
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
        found = store.executionsList()
        sizes += [len(found.apply(number).physicalPlanDescription()) for number in range(first, found.size())]
