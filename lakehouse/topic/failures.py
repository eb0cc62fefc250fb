"""Failures of Spark while it reads a plan, as errors that name the topic."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.errors import BrokerError, DataLossError
from lakehouse.offsets import Plan

_GONE = ("KAFKA_DATA_LOSS", "OffsetOutOfRange", "Some data may have been lost")
_UNREACHABLE = ("org.apache.kafka.common.errors", "KafkaException")


@contextmanager
def read_failures(plan: Plan) -> Iterator[None]:
    """Turn a failure to read a plan into ``DataLossError`` or ``BrokerError``; other errors pass."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - commands without Spark never read a plan
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from lakehouse.spark import error_text  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = error_text(error)
        spans = ", ".join(f"{part.partition}:{part.start}-{part.end}" for part in plan.ranges if part.span)
        where = f"topic {plan.topic}, {spans}"
        if any(mark in text for mark in _GONE):
            action = "Run it again: it plans anew and names what is gone."
            raise DataLossError("Records of the plan are no longer in the topic", where=where, action=action) from error
        if any(mark in text for mark in _UNREACHABLE):
            action = "Nothing was merged. Look after the broker and run it again."
            raise BrokerError("The broker did not give the records", where=where, action=action) from error
        raise
