"""Former spellings: each is refused with the line to write, and that line is accepted."""

import datetime
import importlib
import re
from dataclasses import fields, replace
from typing import Any

import pytest

import lakehouse
from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.names import FORMER_NAMES, FORMER_OPTIONS
from lakehouse.errors import DeclarationError
from lakehouse_tests.unit.declaration.ratings import declare

PERIOD = datetime.timedelta(days=30)
VALUES: dict[str, Any] = {
    "topics": ["a", "b"],
    "start": "latest",
    "gaps": "accept",
    "order": "offset",
    "partitions": 5,
    "replay_from": datetime.date(2026, 1, 31),
    "may_forget": True,
    "single_object": True,
    "apply_as_deletes": lakehouse.FieldIs("op", ["D"]),
    "apply_as_truncates": lakehouse.FieldIs("op", ["T"]),
    "purge_deletes": PERIOD,
    "fresh": PERIOD,
    "max_lag": 7,
    "retention": PERIOD,
    "maintain_every": PERIOD,
    "cluster_by": ["stars"],
    "pattern": "%Y",
    "epoch": "seconds",
    "zone": "Europe/Berlin",
    "sql": "stars + 1",
}
NAMES = {name: getattr(lakehouse, name) for name in lakehouse.__all__} | {"datetime": datetime}


def line_of(make: Any, **options: Any) -> str:
    """What the error of a former spelling says to write."""
    with pytest.raises(DeclarationError) as raised:
        make(**options)
    return raised.value.action.removeprefix("Write ").removesuffix(".").replace(" and write ", " and ")


@pytest.mark.parametrize("option", FORMER_OPTIONS["StreamTable"])
def test_the_line_for_a_former_option_of_a_table_has_its_value_at_its_place(option: str) -> None:
    line = line_of(declare, **{option: VALUES[option]}, **({"rows_from": "items"} if "single" in option else {}))
    name, _, expression = line.partition("=")
    new_part = eval(expression, NAMES)  # noqa: S307 - the line that a user copies
    assert VALUES[option] in [getattr(new_part, field.name) for field in fields(new_part)]
    assert name in {field.name for field in fields(StreamTable)}


def test_several_former_options_of_a_table_become_one_line_each_group() -> None:
    line = line_of(declare, start="latest", gaps="accept", fresh=PERIOD, max_lag=7)
    source, promise = "source=Topic('ratings', start='latest', gaps='accept')", "promise=Promise(fresh="
    assert line.startswith(f"{source} and {promise}")
    assert line.endswith(", max_lag=7)")
    assert line_of(declare, topics=["a", "b"], gaps="accept") == "source=Topics(['a', 'b'], gaps='accept')"
    pattern = lakehouse.TopicPattern("a.*")
    assert line_of(declare, topics=pattern, gaps="accept") == "source=TopicPattern('a.*', gaps='accept')"
    files = lakehouse.Files("ratings" * 20)
    assert line_of(declare, topic="", source=files, order="offset") == "source=Files(..., order='offset')"


def test_a_former_option_that_a_source_cannot_have_is_to_be_removed() -> None:
    rows = lakehouse.TableRows("movies")
    assert line_of(declare, source=rows, order="offset") == "source=TableRows(..., order='offset')"
    assert line_of(declare, source=rows, gaps="accept") == "Remove gaps"
    assert line_of(declare, topics=["a", "b"], order="offset") == "source=Topics(['a', 'b']) and remove order"
    assert line_of(declare, single_object=True) == "rows_from=Explode(..., single_object=True)"


def test_sources_that_number_their_records_themselves_have_an_order() -> None:
    for source in (lakehouse.Files("a"), lakehouse.TableRows("a"), lakehouse.Generated()):
        by_time, by_number = (declare(source=replace(source, order=order)) for order in ("timestamp", "offset"))
        assert (by_time.order, by_number.order) == ("timestamp", "offset")
        assert by_time.fingerprint != by_number.fingerprint


@pytest.mark.parametrize("option", FORMER_OPTIONS["Column"])
def test_the_line_for_a_former_option_of_a_column_has_its_value(option: str) -> None:
    line = line_of(Column, name="n", type="TIMESTAMP", doc="A time.", **{option: VALUES[option]})
    if option == "sql":
        assert line == "Computed('n', 'TIMESTAMP', sql='stars + 1', doc=...)"
    else:
        assert getattr(eval(line.removeprefix("written="), NAMES), option) == VALUES[option]  # noqa: S307


@pytest.mark.parametrize("form", ["text", lakehouse.TextNumber(decimal=",")])
def test_the_line_for_a_former_epoch_keeps_how_the_number_is_written(form: Any) -> None:
    line = line_of(Column, name="n", type="TIMESTAMP", doc="A time.", epoch="seconds", written=form)
    assert line == f"written=Time(epoch='seconds', written={form!r})"


@pytest.mark.parametrize("name", FORMER_NAMES)
def test_a_former_name_is_refused_with_its_import_and_is_there(name: str) -> None:
    with pytest.raises(ImportError, match=re.escape(f"write from {FORMER_NAMES[name]} import {name}")):
        getattr(lakehouse, name)
    assert getattr(importlib.import_module(FORMER_NAMES[name]), name)
    assert name not in lakehouse.__all__


def test_a_table_has_at_most_25_options_and_a_column_15() -> None:
    assert [len(fields(part)) for part in (StreamTable, Column)] == [24, 15]


def test_the_short_form_of_a_topic_equals_the_long_one() -> None:
    assert declare() == declare(source=lakehouse.Topic("ratings"))
    assert declare().topic_options == lakehouse.Topic("ratings")
