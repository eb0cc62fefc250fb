"""Failures while the records of a plan are read, as errors that name the topic, the offsets and the next command."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lakehouse.errors import BrokerError, BrokerRefusedError, ReadLossError, SettingsError, TopicError
from lakehouse.errors.causes import Cause as ErrorCause
from lakehouse.errors.causes import causes_of
from lakehouse.errors.troubles import Trouble, has_trouble, matching_line
from lakehouse.kafka.connection import match_cause
from lakehouse.ledger.positions import Plan, SourceId

_CONFIG = "org.apache.kafka.common.config.ConfigException"


class TimelessRecordError(TopicError):
    """Spark's client cannot read a record, because its time is out of range for a timestamp; nothing was written.

    ``command`` is what the user runs to continue.
    """

    def __init__(self, fact: str, *, where: str, action: str, command: str) -> None:
        super().__init__(fact, where=where, action=action)
        self.command = command


@contextmanager
def read_failures(plan: Plan, command: str) -> Iterator[None]:
    """Turn a failure to read a plan into an error with its topic, its offsets, and the ``command`` to continue.

    Raises ``ReadLossError``, ``BrokerRefusedError``, ``BrokerError`` or ``TimelessRecordError``; ``SettingsError`` if
    Kafka's client refuses a property.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - commands without Spark never read a plan
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if has_trouble(error, Trouble.RECORDS_GONE):
            raise records_gone_error(plan, command) from error
        if has_trouble(error, Trouble.NO_SUCH_TIME):
            raise _timeless_error(plan, command, matching_line(error, Trouble.NO_SUCH_TIME)) from error
        _require_accepted_properties(causes_of(error))
        if has_trouble(error, Trouble.BROKER):
            raise _broker_error(plan, command, causes_of(error)) from error
        raise


def require_same_source(plan: Plan, source: SourceId, command: str) -> None:
    """Raise ``ReadLossError`` if the source that now has this name is not the planned one."""
    if plan.source != source:
        raise records_gone_error(plan, command)


def records_gone_error(plan: Plan, command: str) -> ReadLossError:
    """Return the error of a plan whose records were removed before they were read."""
    fact = "Records were deleted from the topic while they were read"
    action = (
        "Nothing was merged. Run it again. It reads only records that the topic still has, and reports unmerged ones"
        f" that are gone: {command}"
    )
    return ReadLossError(fact, where=_format_ranges(plan), action=action)


def _broker_error(plan: Plan, command: str, causes: Sequence[ErrorCause]) -> BrokerError:
    cause = match_cause(causes)
    error_class = BrokerRefusedError if cause else BrokerError
    fact, advice = cause or ("The broker did not deliver the records", "Check that the broker is healthy.")
    action = f"Nothing was merged. {advice} Continue with: {command}"
    return error_class(fact, where=_format_ranges(plan), action=action)


def _require_accepted_properties(causes: Sequence[ErrorCause]) -> None:
    """Raise an error that names the refused property, without its value or Kafka's message: both may be secret."""
    for cause in causes:
        if cause.kind == _CONFIG:
            match = re.search(r" for configuration ([\w.]+)(:|$)", cause.line)
            name = match[1] if match else "a property"
            fact = f"LAKEHOUSE_KAFKA_PROPERTIES: Kafka's client refuses the value of {name}"
            action = "See the documentation of Kafka's clients for the values of each property."
            raise SettingsError(fact, action=action) from None


def _timeless_error(plan: Plan, command: str, message: str) -> TimelessRecordError:
    match = re.search(r"partition \d+ offset \d+", message)
    fact = "The time of a record is out of range for a timestamp; its producer set it, perhaps in nanoseconds"
    if not match:  # in the last second before the lowest timestamp, and for any other sum that overflows
        fact = "The time of a record is out of range for a timestamp, or another number in it is too large for Spark"
        action = "Nothing was merged. Inspect the records there before you delete any from the topic."
        return TimelessRecordError(fact, where=_format_ranges(plan), action=action, command=command)
    action = (
        f"Nothing was merged. Merge the records before it, by {command} with a small --max-records. Then delete the"
        " records up to it from the topic, and accept that gap. A topic with LogAppendTime has no such times."
    )
    return TimelessRecordError(fact, where=f"topic {plan.stream}, {match[0]}", action=action, command=command)


def _format_ranges(plan: Plan) -> str:
    ranges = (
        f"partition {offsets.partition} offsets {offsets.start} to {offsets.end - 1}"
        for offsets in plan.ranges
        if offsets.span
    )
    return f"topic {plan.stream}, {', '.join(ranges)}"
