"""No error of a declaration leads into another one: for each, what is declared by its advice is accepted."""

import pytest

from lakehouse.declaration import Json
from lakehouse_tests.unit.declaration.advice import (
    columns,
    computed,
    formats,
    measures,
    references,
    rows,
    tables,
    times,
    types,
)
from lakehouse_tests.unit.declaration.advice.example import Example, bytes_of
from lakehouse_tests.unit.declaration.advice.places import overlooked, place_of, places

TOPICS = (columns, times, types, formats, tables, rows, references, measures, computed)
EXAMPLES = [example for topic in TOPICS for example in topic.EXAMPLES]
each_error = pytest.mark.parametrize("example", EXAMPLES, ids=[example.fact[:60] for example in EXAMPLES])


@each_error
def test_a_declaration_is_refused_with_its_fact_and_an_advice(example: Example) -> None:
    _, error = place_of(example.refused)
    assert error.what.partition(": ")[2] == example.fact
    assert error.action == example.advice


@each_error
def test_what_is_declared_by_the_advice_is_accepted_and_reads_records(example: Example) -> None:
    assert example.followed
    for way in example.followed:
        table = way.made()
        if isinstance(table.format, Json):
            row = table.decode(bytes_of(way.record), **way.beside)
            assert {name: row[name] for name in way.row} == way.row


def test_every_place_that_refuses_a_declaration_has_an_example() -> None:
    assert {place_of(example.refused)[0] for example in EXAMPLES} == set(places())
    assert overlooked() == []
