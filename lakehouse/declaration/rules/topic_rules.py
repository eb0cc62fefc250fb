"""The rules for ``topic`` and ``topics``: the names, and what a table with several topics cannot have."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from lakehouse.declaration.table_inputs import FIRST_TIME, LATEST, TopicPattern, start_time
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem

TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_OF_TOPIC = "Use up to 249 letters, digits, '.', '_' and '-', but neither '.' nor '..' alone."
_ONE_EACH = "Declare one table for each topic."
_START_TIME = 'Declare a time, such as start="2026-11-01T00:00:00Z", or remove start.'
_TIME_EXAMPLE = 'Write, for example: start="2026-11-01T00:00:00Z"'
_OFFSETS_EXAMPLE = "Write, for example: start={0: 1200, 1: 900}"


def topic_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the topics of a table."""
    if table.source:
        if table.topic or table.topics:
            yield "source and a topic are both declared", "Remove one of the two."
        return
    if table.topic and table.topics:
        yield "topic and topics are both declared", "Remove one of the two. topics has every topic of the table."
    if isinstance(table.topics, TopicPattern):
        yield from _pattern_problems(table.topics.pattern)
    for name in table.topics if not isinstance(table.topics, TopicPattern) else ():
        yield from _name_problems(name)
    if not table.topics:
        yield from _name_problems(table.topic)
        return
    yield from _doubled_names(table)
    yield from _unordered(table)


def _name_problems(name: str) -> Iterator[Problem]:
    if not TOPIC.fullmatch(name):
        yield f"topic {name!r} is not a valid name in Kafka", _OF_TOPIC


def _pattern_problems(pattern: str) -> Iterator[Problem]:
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"topics: {pattern!r} is not a regular expression: {error}"
        yield message, 'Write, for example: topics=TopicPattern("orders-.*")'
    if not pattern:
        yield "topics: the pattern is empty", 'Write, for example: topics=TopicPattern("orders-.*")'


def _doubled_names(table: TableParts) -> Iterator[Problem]:
    names = () if isinstance(table.topics, TopicPattern) else table.topics
    for name, count in Counter(names).items():
        if count > 1:
            yield f"topics lists {name} twice", "List it once."


def _unordered(table: TableParts) -> Iterator[Problem]:
    """Options that need positions which can be compared, but those of several topics cannot."""
    if table.order == "offset":
        message = 'order="offset" cannot be combined with topics: offsets of several topics cannot be compared'
        yield message, "Remove order. Declare version= if the times of the broker do not order the records."
    if table.has_changes:
        message = f"format {table.format.name} cannot be combined with topics"
        yield message, f"Positions in the logs of several databases cannot be compared. {_ONE_EACH}"
    if table.apply_as_truncates:
        message = "apply_as_truncates cannot be combined with topics"
        yield message, f"A truncate in one topic would delete the rows of all. {_ONE_EACH}"
    if isinstance(table.start, Mapping):
        yield "start has offsets, but the table has several topics", _START_TIME
    if table.start == LATEST:
        message = 'start="latest" cannot be combined with topics: a topic that appears later would lose records'
        yield message, _START_TIME


def start_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the start of a table."""
    if isinstance(table.start, Mapping):
        yield from _position_problems(table.start)
        return
    try:
        time = start_time(table.start)
    except ValueError:
        yield f'start is {table.start!r}, which is neither "latest" nor a time in ISO 8601', _TIME_EXAMPLE
        return
    if time is not None:
        yield from _time_problems(time)


def _time_problems(time: datetime) -> Iterator[Problem]:
    if time.utcoffset() is None:
        yield f"start {time} has no time zone", f"It may mean several times. {_TIME_EXAMPLE}"
    elif time < FIRST_TIME:
        yield f"start {time} is before 1970", "Remove start: a new table begins at the first record of the topic."


def _position_problems(positions: Mapping[int, int]) -> Iterator[Problem]:
    if not positions:
        yield "start names no partition", _OFFSETS_EXAMPLE
    for partition, position in positions.items():
        if partition < 0:
            yield f"start names partition {partition}, but the first one is 0", _OFFSETS_EXAMPLE
        if position < 0:
            message = f"start: offset {position} of partition {partition} is negative"
            yield message, 'Name the first offset to merge. To begin at the end of the topic, write start="latest".'
