"""Topics: several in one table, a pattern, and a column with their name."""

from functools import partial

from lakehouse.declaration import Debezium, FieldIs, TopicName, TopicPattern
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import column, with_columns

TWO = ["ratings-eu", "ratings-us"]
several = partial(with_columns, topic="", topics=TWO)
START = 'Declare a time, such as start="2026-11-01T00:00:00Z", or remove start.'
START_TIME = "2026-11-01T00:00:00Z"
NAME = TopicName()
EXAMPLES = [
    Example(
        "topic and topics are both declared",
        "Remove one of the two. topics has every topic of the table.",
        with_columns(topics=TWO),
        several(),
        with_columns(),
    ),
    Example(
        "topics: 'ratings-(' is not a regular expression: missing ), unterminated subpattern at position 8",
        'Write, for example: topics=TopicPattern("orders-.*")',
        with_columns(topic="", topics=TopicPattern("ratings-(")),
        with_columns(topic="", topics=TopicPattern("orders-.*")),
    ),
    Example(
        "topics: the pattern is empty",
        'Write, for example: topics=TopicPattern("orders-.*")',
        with_columns(topic="", topics=TopicPattern("")),
        with_columns(topic="", topics=TopicPattern("orders-.*")),
    ),
    Example(
        "topics lists ratings-eu twice",
        "List it once.",
        several(topics=[*TWO, "ratings-eu"]),
        several(),
    ),
    Example(
        'order="offset" cannot be combined with topics: offsets of several topics cannot be compared',
        "Remove order. Declare version= if the times of the broker do not order the records.",
        several(order="offset"),
        several(),
        several(version="rated_at"),
    ),
    Example(
        "format Debezium cannot be combined with topics",
        "Positions in the logs of several databases cannot be compared. Declare one table for each topic.",
        several(format=Debezium()),
        with_columns(format=Debezium()),
    ),
    Example(
        "apply_as_truncates cannot be combined with topics",
        "A truncate in one topic would delete the rows of all. Declare one table for each topic.",
        several(apply_as_truncates=FieldIs("op", ["truncate"])),
        with_columns(apply_as_truncates=FieldIs("op", ["truncate"])),
    ),
    Example(
        "start has offsets, but the table has several topics",
        START,
        several(start={0: 5}),
        several(start=START_TIME),
        several(),
    ),
    Example(
        'start="latest" cannot be combined with topics: a topic that appears later would lose records',
        START,
        several(start="latest"),
        several(start=START_TIME),
        several(),
    ),
    Example(
        "column n: the name of the topic is a text, but the column is INT",
        "Declare STRING.",
        with_columns(column(source=NAME)),
        with_columns(column("n", "STRING", source=NAME)),
    ),
    Example(
        "column n: keep is not allowed for the name of the topic",
        "It is as it is, never NULL. Remove keep.",
        with_columns(column("n", "STRING", source=NAME, keep=True)),
        with_columns(column("n", "STRING", source=NAME)),
    ),
]
