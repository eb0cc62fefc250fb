"""What follows from a declaration: names, fields and fingerprints."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.declaration import (
    Column,
    Deletes,
    Explode,
    FieldIs,
    Late,
    Measure,
    Month,
    Rollup,
    StreamTable,
    Topic,
    Topics,
    ValueOrObject,
    Version,
    Zone,
)
from lakehouse.decoding.fields import Field, Form, Limits, Place
from lakehouse.errors import DeclarationError
from lakehouse_tests.unit.declaration.ratings import ID, RATED_AT, STARS, declare, oldest

DELETES = FieldIs("op", ["D"])
COUNT = {"ratings": Measure("count(*)", "BIGINT", "How many.")}


def rollup(**changes: Any) -> Rollup:
    return Rollup(**({"name": "ratings_by_movie", "by": ["id"], "measures": COUNT, "doc": "By movie."} | changes))


def test_a_declaration_has_the_names_and_columns_that_follow_from_it() -> None:
    table = declare(
        partition_by=Month("rated_at"),
        version="id",
        rollups=[rollup(by=["id", "rated_month"])],
        columns=[ID, RATED_AT, Column("stars", "INT", keep=True, doc="")],
    )
    assert (table.base_name, table.rejected_name, table.changes_name) == (
        "ratings_base",
        "ratings_rejected",
        "ratings_changes",
    )
    assert table.values == ("rated_at", "stars")
    assert table.keep == ("stars",)
    assert table.partition_by is not None
    assert table.partition_by.name == "rated_month"


def test_a_column_is_a_rule_for_its_field() -> None:
    assert RATED_AT.field == Field(
        *("rated_at", "TIMESTAMP", Place("time", ("time",)), Form(pattern="%Y-%m-%d %H:%M:%S"), Limits(required=True))
    )
    assert STARS.field == Field("stars", "INT", Place("stars", ("stars",)), limits=Limits(minimum=1, maximum=5))
    city = Column("city", "STRING", source=("customer", "city"), default="?", doc="Where to.")
    assert city.field == Field(
        "city", "STRING", Place("customer.city", ("customer", "city")), limits=Limits(default="?")
    )


@pytest.mark.parametrize("type_", ["DECIMAL(5,2)", "DOUBLE"])
@pytest.mark.parametrize("bounds", [(0.1, 5), [0.1, 5], (Decimal("0.1"), Decimal(5))])
def test_bounds_are_those_that_are_written(type_: str, bounds: Any) -> None:
    limits = Column("price", type_, "A price.", between=bounds).field.limits
    assert (str(limits.minimum), str(limits.maximum)) == ("0.1", "5")


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "other"},
        {"key": ["id", "rated_at"]},
        {"version": "id"},
        {"topic": "", "source": Topic("ratings", order="offset")},
        {"late": Late("rated_at", timedelta(days=1))},
        {"columns": [ID, RATED_AT, Column("stars", "INT", between=(0, 5), doc="One to five.")]},
        {"columns": [ID, RATED_AT, replace(STARS, source=ValueOrObject("stars", "n"))]},
        {"deletes": Deletes(when=FieldIs("op", ["D"]))},
        {"deletes": Deletes(truncates=FieldIs("op", ["T"]))},
    ],
)
def test_the_fingerprint_changes_with_options_that_decide_rows(changes: dict[str, Any]) -> None:
    parts: dict[str, Any] = {
        "name": "ratings",
        "topic": "ratings",
        "doc": "",
        "columns": [ID, RATED_AT, STARS],
        "key": ["id"],
    }
    assert StreamTable(**parts).fingerprint == declare().fingerprint
    assert StreamTable(**(parts | changes)).fingerprint != declare().fingerprint


@pytest.mark.parametrize(
    ("changes", "further_changes"),
    [
        ({"deletes": Deletes(when=DELETES)}, {"deletes": Deletes(when=DELETES, truncates=FieldIs("op", ["T"]))}),
        ({"rows_from": "items"}, {"rows_from": Explode("items", single_object=True)}),
        ({"version": oldest("stars")}, {"version": Version("stars", nulls="reject")}),
    ],
)
def test_the_fingerprint_changes_with_a_part_of_an_option(
    changes: dict[str, Any], further_changes: dict[str, Any]
) -> None:
    assert declare(**changes).fingerprint != declare(**further_changes).fingerprint


def test_the_fingerprint_does_not_change_with_other_options() -> None:
    assert (
        declare(owner="team:other", source=Topic("ratings", partitions=9), rollups=[rollup()]).fingerprint
        == declare().fingerprint
    )


def test_the_time_of_the_broker_must_have_a_zone() -> None:
    with pytest.raises(ValueError, match="no zone"):
        declare().decode(b"{}", time=datetime(2026, 1, 1))


def test_a_table_without_a_key_is_a_log_and_has_no_change_feed() -> None:
    log, keyed = declare(key=[], rollups=[rollup()]), declare(rollups=[rollup()])
    assert (log.is_log, keyed.is_log) == (True, False)
    assert (log.derived, keyed.derived) == (("ratings_by_movie",), ("ratings_changes", "ratings_by_movie"))
    assert "ratings_changes" not in log.names
    assert "ratings_changes_every_change_kept" not in log.names


def test_null_erases_changes_the_fingerprint_only_if_it_is_set() -> None:
    kept_column = Column("stars", "INT", between=(1, 5), keep=True, doc="One to five.")
    keeping_table, erasing_table = (
        declare(columns=[ID, RATED_AT, replace(kept_column, null_erases=value)]) for value in (False, True)
    )
    assert (keeping_table.fingerprint, erasing_table.fingerprint) == ("f387a6755237", "fd924f6b3053")


def test_a_zone_changes_the_fingerprint_by_its_name_and_its_choices() -> None:
    zones = (None, "Europe/Berlin", Zone("Europe/Berlin"), Zone("Europe/Berlin", "later"), "Europe/Paris")
    times = [replace(RATED_AT.time, zone=zone) for zone in zones]
    fingerprints = [declare(columns=[ID, replace(RATED_AT, written=time)]).fingerprint for time in times]
    assert fingerprints[1] == fingerprints[2]
    assert len(set(fingerprints)) == 4
    assert fingerprints[0] == "dc8f100a3118"


def test_replace_changes_the_topic_or_the_source_of_both_spellings() -> None:
    short = StreamTable("orders", "orders", "Orders.", [Column("id", "BIGINT", "Number.", required=True)], ["id"])
    long = replace(short, source=Topic("orders", gaps="accept"))
    assert (long.topic, long.topic_options.gaps) == ("orders", "accept")
    assert replace(short, topic="other").source == Topic("other")
    assert replace(short, source=Topic("other", order="offset")).topic == "other"
    assert (replace(long, source=Topics(["a", "b"])).topic, replace(long, doc="New.").source) == ("", long.source)
    with pytest.raises(DeclarationError, match="topic and source are both declared"):
        replace(long, topic="other")
