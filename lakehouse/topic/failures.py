"""What can go wrong while a plan is read, as errors that name the topic, the offsets and what goes on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.errors import BrokerError, BrokerRefusedError, ReadLossError, TopicError
from lakehouse.errors.troubles import Trouble, error_text, means, telling_line
from lakehouse.topic.causes import told_cause
from lakehouse.topic.offsets import Plan, TopicState


@contextmanager
def read_failures(plan: Plan, command: str) -> Iterator[None]:
    """Turn a failure to read a plan into ``ReadLossError``, ``BrokerRefusedError``, ``BrokerError`` or ``TopicError``.

    ``command`` is what a person types to go on.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - commands without Spark never read a plan
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if means(error, Trouble.RECORDS_GONE):
            raise _gone(plan, command) from error
        if means(error, Trouble.NO_SUCH_TIME):
            raise _no_such_time(plan, command, telling_line(error, Trouble.NO_SUCH_TIME)) from error
        if means(error, Trouble.BROKER):
            raise _not_given(plan, command, error_text(error)) from error
        raise


def require_same_topic(plan: Plan, state: TopicState, command: str) -> None:
    """Raise ``ReadLossError`` where the topic that was read, by its name, is not the one that was planned."""
    if plan.incarnation != state.incarnation:
        raise _gone(plan, command)


def _not_given(plan: Plan, command: str, said: str) -> BrokerError:
    cause = told_cause(said)
    kind = BrokerRefusedError if cause else BrokerError
    fact, advice = cause or ("The broker did not give the records", "Look after the broker.")
    return kind(fact, where=_where(plan), action=f"Nothing was merged. {advice} Go on with: {command}")


def _no_such_time(plan: Plan, command: str, said: str) -> TopicError:
    found = re.search(r"partition \d+ offset \d+", said)
    fact = "A record's time is beyond any timestamp: its producer set it, in nanoseconds perhaps"
    action = (
        f"Nothing was merged. Merge what is before it, by {command} with a small --max-records; then delete the records"
        " up to it from the topic, and accept that gap. A topic with LogAppendTime has no such times."
    )
    return TopicError(fact, where=f"topic {plan.topic}, {found[0]}" if found else _where(plan), action=action)


def _gone(plan: Plan, command: str) -> ReadLossError:
    action = f"Nothing was merged. What is gone is named by: {command}"
    return ReadLossError("Records of the plan are no longer in the topic", where=_where(plan), action=action)


def _where(plan: Plan) -> str:
    parts = (f"partition {part.partition} offsets {part.start} to {part.end - 1}" for part in plan.ranges if part.span)
    return f"topic {plan.topic}, {', '.join(parts)}"
