"""How large the plans are that Spark makes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
    last = max((each.executionId() for each in executions(store)), default=-1)
    for name, value in _WHOLE.items():
        spark.conf.set(name, value)
    sizes: list[int] = []
    try:
        yield sizes
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
        new = [each for each in executions(store) if each.executionId() > last]
        assert min(each.executionId() for each in new) == last + 1, "Spark has forgotten some of them"
        sizes += [len(each.physicalPlanDescription()) for each in new]


def executions(store: Any) -> list[Any]:
    """The statements that Spark remembers: the newest, as many as its settings say."""
    found = store.executionsList()
    return [found.apply(number) for number in range(found.size())]
