"""Topics: several in one table, a pattern, and a column with their name."""

from functools import partial

from lakehouse.declaration import Debezium, Deletes, FieldIs, TopicName, TopicPattern, Topics
from lakehouse_tests.unit.declaration.advice.example import Example, of_table
from lakehouse_tests.unit.declaration.ratings import column, with_columns

TWO = ["ratings-eu", "ratings-us"]
TOPICS = Topics(TWO)
several = partial(with_columns, source=TOPICS)
START = 'Declare a time, such as start="2026-11-01T00:00:00Z", or remove start.'
START_TIME = "2026-11-01T00:00:00Z"
NAME = TopicName()
EXAMPLES = [
    of_table(
        "Topics has no names",
        'Write, for example: source=Topics(["orders-eu", "orders-us"])',
        source=[Topics([]), Topics(["orders-eu", "orders-us"])],
    ),
    of_table(
        "TopicPattern: 'ratings-(' is not a regular expression: missing ), unterminated subpattern at position 8",
        'Write, for example: source=TopicPattern("orders-.*")',
        source=[TopicPattern("ratings-("), TopicPattern("orders-.*")],
    ),
    of_table(
        "TopicPattern: the pattern is empty",
        'Write, for example: source=TopicPattern("orders-.*")',
        source=[TopicPattern(""), TopicPattern("orders-.*")],
    ),
    Example("Topics lists ratings-eu twice", "List it once.", several(source=Topics([*TWO, "ratings-eu"])), several()),
    Example(
        "format Debezium cannot be combined with several topics",
        "Positions in the logs of several databases cannot be compared. Declare one table for each topic.",
        several(format=Debezium()),
        with_columns(format=Debezium()),
    ),
    Example(
        "truncates of deletes cannot be combined with several topics",
        "A truncate in one topic would delete the rows of all. Declare one table for each topic.",
        several(deletes=Deletes(truncates=FieldIs("op", ["truncate"]))),
        with_columns(deletes=Deletes(truncates=FieldIs("op", ["truncate"]))),
    ),
    Example(
        'start="latest" cannot be combined with several topics: one that appears later would lose records',
        START,
        several(source=Topics(TWO, start="latest")),
        several(source=Topics(TWO, start=START_TIME)),
    ),
    Example(
        "column n: the name of the topic cannot be INT",
        "Declare STRING.",
        with_columns(column(source=NAME)),
        with_columns(column("n", "STRING", source=NAME)),
    ),
    Example(
        "column n: keep is not allowed for the name of the topic",
        "Remove keep: its values are as they are.",
        with_columns(column("n", "STRING", source=NAME, keep=True)),
        with_columns(column("n", "STRING", source=NAME)),
    ),
]
