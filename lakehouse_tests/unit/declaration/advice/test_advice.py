"""The advice of an error never leads to another error: a declaration that follows it is accepted."""

import pytest

from lakehouse.declaration import Json
from lakehouse_tests.unit.declaration.advice import (
    arrays,
    binary,
    changes,
    columns,
    computed,
    deletes,
    formats,
    forms,
    invalid,
    keys,
    measures,
    pairs,
    references,
    rejects,
    rows,
    sources,
    tables,
    times,
    topics,
    types,
    zones,
)
from lakehouse_tests.unit.declaration.advice.example import Example, encode_rating
from lakehouse_tests.unit.declaration.advice.places import find_overlooked, find_place, places

TOPICS = (
    arrays,
    columns,
    keys,
    times,
    zones,
    types,
    forms,
    invalid,
    binary,
    formats,
    tables,
    topics,
    sources,
    rows,
    references,
    rejects,
    measures,
    pairs,
    computed,
    deletes,
    changes,
)
EXAMPLES = [example for topic in TOPICS for example in topic.EXAMPLES]
for_each_error = pytest.mark.parametrize("example", EXAMPLES, ids=[example.message[:60] for example in EXAMPLES])


@for_each_error
def test_a_declaration_is_refused_with_its_message_and_advice(example: Example) -> None:
    _, error = find_place(example.refused_table)
    assert error.what.partition(": ")[2] == example.message
    assert error.action == example.advice


@for_each_error
def test_a_declaration_that_follows_the_advice_is_accepted_and_decodes_records(example: Example) -> None:
    assert example.ways
    for accepted in example.ways:
        table = accepted.make_table()
        if isinstance(table.format, Json) and not table.format.framed and not table.has_elements:
            row = table.decode(encode_rating(accepted.record), **accepted.other_parts)
            assert {name: row[name] for name in accepted.row} == accepted.row


def test_every_place_that_refuses_a_declaration_has_an_example() -> None:
    assert {find_place(example.refused_table)[0] for example in EXAMPLES} == set(places())
    assert find_overlooked() == []
