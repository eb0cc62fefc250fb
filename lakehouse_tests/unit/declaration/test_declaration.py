"""A declaration is checked when it is made, and everything else follows from it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lakehouse.declaration import Column, Late, Measure, Month, Rollup, StreamTable
from lakehouse.declaration.fields import Field
from lakehouse.errors import DeclarationError
from lakehouse.tables.temperatures import temperatures

ID = Column("id", "BIGINT", required=True, doc="Number of the movie.")
RATED_AT = Column(
    "rated_at", "TIMESTAMP", required=True, source="time", pattern="%Y-%m-%d %H:%M:%S", doc="When it was rated."
)
STARS = Column("stars", "INT", between=(1, 5), doc="One to five.")
COUNT = {"ratings": Measure("count(*)", "BIGINT", "How many.")}

DROP: Any = "drop"  # no policy


def declare(**changes: Any) -> StreamTable:
    parts: dict[str, Any] = {"columns": [ID, RATED_AT, STARS], "key": ["id"]}
    return StreamTable(name="ratings", topic="ratings", doc="Ratings.", **(parts | changes))


def rollup(**changes: Any) -> Rollup:
    return Rollup(**({"name": "ratings_by_movie", "by": ["id"], "measures": COUNT, "doc": "By movie."} | changes))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: declare(columns=[ID, Column("Stars", "INT", doc="")]), "names are lower case"),
        (lambda: declare(columns=[ID, Column("stars'; --", "INT", doc="")]), "names are lower case"),
        (lambda: declare(rollups=[rollup(name="by movie")]), "names are lower case"),
        (lambda: declare(columns=[ID, STARS, STARS]), "two columns have the same name"),
        (lambda: declare(columns=[ID, Column("stars", "FLOAT", doc="")]), "column stars: no such type FLOAT"),
        (lambda: declare(columns=[ID, Column("stars", "DECIMAL(9)", doc="")]), "no such type DECIMAL"),
        (lambda: declare(columns=[ID, Column("rated_at", "TIMESTAMP", doc="")]), "rated_at: a time needs a pattern"),
        (lambda: declare(columns=[ID, Column("rated_on", "DATE", doc="")]), "rated_on: a time needs a pattern"),
        (
            lambda: declare(columns=[ID, Column("stars", "INT", required=True, keep=True, doc="")]),
            "column stars: required or keep",
        ),
        (lambda: declare(key=["stars"]), "key column stars must be declared and required"),
        (lambda: declare(key=["movie"]), "key column movie must be declared and required"),
        (
            lambda: declare(partition_by=Month("stars")),
            "partition_by: Month needs a column of TIMESTAMP",
        ),
        (
            lambda: declare(partition_by=Month("seen_at")),
            "partition_by: Month needs a column of TIMESTAMP",
        ),
        (lambda: declare(version="revision"), "version is no column"),
        (lambda: declare(key=[], version="rated_at"), "version is for tables with a key, and this is a log table"),
        (lambda: declare(key=[], order="offset"), 'order="offset" is for tables with a key'),
        (lambda: declare(key=[], columns=[ID, replace(STARS, keep=True)]), "column stars: keep is for tables with a"),
        (lambda: declare(key=(), base=temperatures.base), "base is for tables with a key"),
        (lambda: declare(late=Late("stars", timedelta(1))), "late needs a TIMESTAMP or DATE column"),
        (lambda: declare(late=Late("seen_at", timedelta(1))), "late needs a TIMESTAMP or DATE column"),
        (lambda: declare(late=Late("rated_at", timedelta(-1))), "late: after is less than nothing"),
        (lambda: declare(late=Late("rated_at", timedelta(1), DROP)), "late: policy is accept or reject"),
        (lambda: declare(gaps="ignore"), "gaps is stop or accept"),
        (lambda: declare(rollups=[rollup(by=["genre"])]), "rollup ratings_by_movie: groups by unknown columns"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(made: Callable[[], StreamTable], said: str) -> None:
    with pytest.raises(DeclarationError, match=said) as refused:
        made()
    assert str(refused.value).startswith("Table 'ratings': ")
    assert refused.value.action


def test_a_table_without_columns_is_refused() -> None:
    with pytest.raises(DeclarationError):
        declare(columns=[], key=[])


def test_a_good_declaration_answers_for_its_parts() -> None:
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


def test_a_column_is_a_rule_for_the_field_it_comes_from() -> None:
    assert RATED_AT.field == Field("rated_at", "time", "TIMESTAMP", True, None, None, "%Y-%m-%d %H:%M:%S", ("time",))
    assert STARS.field == Field("stars", "stars", "INT", False, 1, 5, None, ("stars",))
    city = Column("city", "STRING", source=("customer", "city"), default="?", doc="Where to.")
    assert city.field == Field(
        "city", "customer.city", "STRING", False, None, None, None, ("customer", "city"), None, "?"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "other"},
        {"key": ["id", "rated_at"]},
        {"version": "id"},
        {"order": "offset"},
        {"late": Late("rated_at", timedelta(days=1))},
        {"columns": [ID, RATED_AT, Column("stars", "INT", between=(0, 5), doc="One to five.")]},
    ],
)
def test_the_fingerprint_changes_with_what_decides_rows(changes: dict[str, Any]) -> None:
    parts = {"name": "ratings", "topic": "ratings", "doc": "", "columns": [ID, RATED_AT, STARS], "key": ["id"]}
    assert StreamTable(**(parts | changes)).fingerprint != declare().fingerprint


def test_the_fingerprint_is_not_changed_by_what_does_not_decide_rows() -> None:
    assert declare(owner="team:other", partitions=9, rollups=[rollup()]).fingerprint == declare().fingerprint


def test_the_time_of_the_broker_has_a_zone() -> None:
    with pytest.raises(ValueError, match="no zone"):
        declare().decode(b"{}", time=datetime(2026, 1, 1))


def test_a_table_without_a_key_is_a_log_and_has_no_change_feed() -> None:
    log, keyed = declare(key=[], rollups=[rollup()]), declare(rollups=[rollup()])
    assert (log.is_log, keyed.is_log) == (True, False)
    assert (log.derived, keyed.derived) == (("ratings_by_movie",), ("ratings_changes", "ratings_by_movie"))
    assert "ratings_changes" not in log.names
    assert "ratings_changes_every_change_kept" not in log.names


def test_a_null_that_erases_is_another_declaration_and_one_that_does_not_is_the_same_as_before() -> None:
    kept = Column("stars", "INT", between=(1, 5), keep=True, doc="One to five.")
    one, other = (declare(columns=[ID, RATED_AT, replace(kept, null_erases=erases)]) for erases in (False, True))
    assert (one.fingerprint, other.fingerprint) == ("f387a6755237", "fd924f6b3053")
