"""A table that reads several topics: its parts, its fingerprint, and the order of its rows."""

import pytest
from typer import BadParameter

from lakehouse.cli.arguments import select_topic
from lakehouse.declaration import StreamTable, TopicPattern, Topics
from lakehouse.declaration.snapshot import differences, facts_of
from lakehouse.errors import DeclarationError
from lakehouse.ingest.topics import named_topics, reads_topic_of
from lakehouse.storage.row_order import order_fields, order_of
from lakehouse_tests.unit.declaration.ratings import declare

ONE = declare()
TWO = declare(source=Topics(["ratings-eu", "ratings-us"]))
MATCHING = declare(source=TopicPattern("ratings-.*"))


def test_the_declaration_for_one_topic_differs_in_nothing_else() -> None:
    part = TWO.in_topic("ratings-us")
    assert (part.topic, part.topics, TWO.topic) == ("ratings-us", TWO.topics, "")
    assert (part.fingerprint, part.names, facts_of(part)) == (TWO.fingerprint, TWO.names, facts_of(TWO))


def test_topics_are_part_of_the_fingerprint_and_of_the_snapshot() -> None:
    tables = (ONE, TWO, MATCHING, declare(source=Topics(["ratings-eu"])), declare(topic="ratings-eu"))
    assert len({table.fingerprint for table in tables}) == len(tables)
    assert "topics" not in facts_of(ONE)
    changes = dict(differences(facts_of(ONE), facts_of(TWO)))
    assert changes == {"table": "table: topics was not set, is ['ratings-eu', 'ratings-us']"}


@pytest.mark.invariant("4.1", "4.8")
def test_the_source_decides_between_records_of_the_same_time() -> None:
    fields = order_fields(TWO, "t")
    order = order_of(TWO, fields=fields).replace("t._record.", "")
    assert order == "struct(sequence, coalesce(order_time, time), source, partition, position, base)"
    assert "source" not in order_of(ONE, fields=order_fields(ONE, "t"))
    assert "_source" not in order_of(TWO), "a staged record has no such column"


@pytest.mark.parametrize(
    ("source", "names"),
    [(Topics(("a", "b")), ["a", "b"]), (TopicPattern("a.*"), [])],
)
def test_the_named_topics_are_those_of_a_list(source: Topics | TopicPattern, names: list[str]) -> None:
    assert [part.topic for part in named_topics(declare(source=source))] == names
    assert named_topics(ONE) == [ONE]


def test_a_pattern_matches_whole_names_in_order() -> None:
    names = ["ratings-us", "old-ratings-eu", "ratings-eu", "ratings-eu"]
    assert TopicPattern("ratings-.*").matching(names) == ["ratings-eu", "ratings-us"]
    assert [reads_topic_of(MATCHING, name) for name in ("ratings-x", "ratings")] == [True, False]


def test_a_command_needs_the_name_of_one_of_several_topics() -> None:
    assert select_topic(ONE, None) is ONE
    assert select_topic(TWO, "ratings-us").topic == "ratings-us"
    assert select_topic(MATCHING, "ratings-new").topic == "ratings-new"
    with pytest.raises(BadParameter, match="reads several topics; name one: topics ratings-eu, ratings-us"):
        select_topic(TWO, None)
    with pytest.raises(BadParameter, match="ratings does not read topic other"):
        select_topic(TWO, "other")


@pytest.mark.parametrize("missing_part", ["doc", "columns", "key"])
def test_only_the_topic_may_be_left_out(missing_part: str) -> None:
    with pytest.raises(DeclarationError, match=f"{missing_part} is missing"):
        declare(**{missing_part: None})


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (ONE, "topic ratings"),
        (TWO, "topics ratings-eu, ratings-us"),
        (MATCHING, "topics that match ratings-.*"),
        (declare(source=Topics(list("abcdefg"))), "topics a, b, c, d, e and 2 more"),
    ],
)
def test_texts_name_the_topics(table: StreamTable, text: str) -> None:
    assert table.topic_text == text
