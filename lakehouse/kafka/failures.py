"""What can go wrong while a plan is read, as errors that name the topic, the offsets and what goes on."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lakehouse.errors import BrokerError, BrokerRefusedError, ReadLossError, SettingsError, TopicError
from lakehouse.errors.causes import Cause as ErrorCause
from lakehouse.errors.causes import causes_of
from lakehouse.errors.troubles import Trouble, means, telling_line
from lakehouse.kafka.connection_causes import told_cause
from lakehouse.ledger.positions import Plan, SourceState

_CONFIG = "org.apache.kafka.common.config.ConfigException"


class TimelessRecordError(TopicError):
    """Spark's client cannot read a record, as its time is beyond any timestamp; nothing was written.

    ``SettingsError`` where Kafka's client refuses a property. ``command`` is what a person types to go on.
    """

    def __init__(self, fact: str, *, where: str, action: str, command: str) -> None:
        super().__init__(fact, where=where, action=action)
        self.command = command


@contextmanager
def read_failures(plan: Plan, command: str) -> Iterator[None]:
    """Turn a failure to read a plan into an error that names its topic, its offsets and ``command``, to go on with.

    Raises ``ReadLossError``, ``BrokerRefusedError``, ``BrokerError`` or ``TimelessRecordError``.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - commands without Spark never read a plan
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if means(error, Trouble.RECORDS_GONE):
            raise gone(plan, command) from error
        if means(error, Trouble.NO_SUCH_TIME):
            raise _no_such_time(plan, command, telling_line(error, Trouble.NO_SUCH_TIME)) from error
        _require_properties(causes_of(error))
        if means(error, Trouble.BROKER):
            raise _not_given(plan, command, causes_of(error)) from error
        raise


def require_same_topic(plan: Plan, state: SourceState, command: str) -> None:
    """Raise ``ReadLossError`` where the topic that was read, by its name, is not the one that was planned."""
    if plan.source != state.source:
        raise gone(plan, command)


def gone(plan: Plan, command: str) -> ReadLossError:
    """The error of a plan whose records went away before they were read."""
    action = f"Nothing was merged. What is gone is named by: {command}"
    return ReadLossError("Records of the plan are no longer in the topic", where=_where(plan), action=action)


def _not_given(plan: Plan, command: str, causes: Sequence[ErrorCause]) -> BrokerError:
    cause = told_cause(causes)
    kind = BrokerRefusedError if cause else BrokerError
    fact, advice = cause or ("The broker did not give the records", "Look after the broker.")
    return kind(fact, where=_where(plan), action=f"Nothing was merged. {advice} Go on with: {command}")


def _require_properties(causes: Sequence[ErrorCause]) -> None:
    """Name the property whose value Kafka refuses, without that value, nor what was said of it: it may be secret."""
    for each in causes:
        if each.kind == _CONFIG:
            found = re.search(r" for configuration ([\w.]+)(:|$)", each.line)
            name = found[1] if found else "a property"
            fact = f"LAKEHOUSE_KAFKA_PROPERTIES: Kafka's client refuses the value of {name}"
            action = "Kafka's documentation of its clients says what each property may be."
            raise SettingsError(fact, action=action) from None


def _no_such_time(plan: Plan, command: str, said: str) -> TimelessRecordError:
    found = re.search(r"partition \d+ offset \d+", said)
    fact = "A record's time is beyond any timestamp: its producer set it, in nanoseconds perhaps"
    if not found:  # as of the last second before the least timestamp, and of any other sum that overflows
        fact = "A record's time is beyond any timestamp, or another number of a record is too large for Spark"
        action = "Nothing was merged. Look at the records there, before any is deleted from the topic."
        return TimelessRecordError(fact, where=_where(plan), action=action, command=command)
    action = (
        f"Nothing was merged. Merge what is before it, by {command} with a small --max-records; then delete the records"
        " up to it from the topic, and accept that gap. A topic with LogAppendTime has no such times."
    )
    return TimelessRecordError(fact, where=f"topic {plan.stream}, {found[0]}", action=action, command=command)


def _where(plan: Plan) -> str:
    parts = (f"partition {part.partition} offsets {part.start} to {part.end - 1}" for part in plan.ranges if part.span)
    return f"topic {plan.stream}, {', '.join(parts)}"
