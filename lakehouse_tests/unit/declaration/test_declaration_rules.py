"""What would corrupt tables, or crash later, is refused where it is declared, by name and with the way on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from dagster._core.definitions.utils import DISALLOWED_NAMES

from lakehouse.declaration import Check, Column, Day, Late, Month, Rollup, StreamTable, Value, Year, declared_together
from lakehouse.defs.build import build_defs
from lakehouse.derived.feed import changes_layout
from lakehouse.errors import DeclarationError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.load import base_layout
from lakehouse.settings import Settings
from lakehouse.storage.row_order import merged_layout
from lakehouse_tests.unit.declaration.ratings import (
    ID,
    LABELS,
    MEASURES,
    RATED_AT,
    SPOT,
    STARS,
    TAGS,
    Made,
    column,
    declare,
    measured,
    one,
    reference,
    rollup,
)


def key(name: str, *others: Column) -> StreamTable:
    return declare(column(name, required=True), *others, key=["id", name])


def summed(sql: str, type_: str = "DOUBLE") -> StreamTable:
    """A rollup of a DOUBLE column n, or one of another type."""
    return measured(sql, column("n", type_))


REFUSED: Sequence[tuple[Made, str]] = [
    # names of ours beside declared columns
    (one(name="_record"), "column '_record': names are lower case"),
    (one(name="stars'; --"), "names are lower case"),
    (one(name="n" * 201), "names are .* at most 200"),
    (lambda: declare(name="n" * 201), "names are .* at most 200"),
    *[
        (lambda name=name: key(name), f"key column {name}: .*taken in the key")
        for name in ("committed_at", "change", "reconciled")
    ],
    (lambda: key("stars_before"), "key column stars_before: .*change feed's column for stars"),
    (lambda: key("stars_after"), "key column stars_after: .*change feed's column for stars"),
    # types and their rules
    (one(type_="DECIMAL(0,0)"), "column n: unknown type"),
    (one(type_="DECIMAL(9)"), "column n: unknown type"),
    (one(type_="DECIMAL(09,6)"), "column n: unknown type"),
    (one(type_="BOOLEAN", between=(0, 1)), "column n: between is for numbers"),
    (one(type_="DATE", pattern="%Y-%m-%d", between=(0, 1)), "column n: between is for numbers"),
    (one(type_="TIMESTAMP", pattern="%Y-%m-%d", between=(0, 1)), "column n: between is for numbers"),
    (one(type_="DOUBLE", between=(float("nan"), 1)), "column n: between needs two numbers"),
    (one(type_="DOUBLE", between=(0, float("nan"))), "column n: between needs two numbers"),
    (one(between=("0", "1")), "column n: between needs two numbers"),
    (one(between=(True, 5)), "column n: between needs two numbers"),
    (one(between=(1,)), "column n: between needs two numbers"),
    (one(type_="BIGINT", between=(-(2**63) - 1, 0)), "column n: between goes beyond what BIGINT holds"),
    (one(type_="DECIMAL(9,6)", between=(0, 1000)), r"between goes beyond what DECIMAL\(9,6\) holds.*999\.999999"),
    *[
        (one(type_=type_, between=between), f"column n: between .*: no value of {type_.replace('(', '.')[:7]}")
        for type_, between in [
            ("BIGINT", (Decimal("0.1"), Decimal("0.9"))),
            ("DECIMAL(5,2)", (0.001, 0.004)),
            ("DECIMAL(38,0)", (Decimal(f"{10**37}.1"), Decimal(f"{10**37}.9"))),
            ("DOUBLE", (float("inf"), float("inf"))),
            ("DOUBLE", (float("-inf"), float("-inf"))),
        ]
    ],
    (one(default=7, between=(0, 5)), "column n: its default cannot be read: 'n' is '7', allowed is 0 to 5"),
    *[
        (lambda by=by: declare(column("d", "DATE", pattern="%Y"), partition_by=by), f"partition_by: {said}")
        for by, said in [
            (Day("d"), "Day needs a column of TIMESTAMP"),
            (Day("none"), "Day needs a column of TIMESTAMP"),
            (Year("id"), "Year needs a column of TIMESTAMP or DATE"),
            (Value("rated_at"), "Value needs a column of DATE or INT or BIGINT"),
        ]
    ],
    (lambda: declare(column("name", "STRING"), partition_by=Value("name")), "Value needs a column of DATE or INT"),
    (lambda: declare(cluster_by=["nope"]), "cluster_by is no column: nope"),
    (lambda: declare(TAGS, cluster_by=["tags"]), "cluster_by tags is ARRAY<STRING>"),
    (lambda: declare(TAGS, version="tags"), "version tags is ARRAY<STRING>"),
    (lambda: declare(replace(TAGS, required=True), key=["tags"]), "key tags is ARRAY<STRING>"),
    (lambda: declare(TAGS, rollups=[Rollup("r", ["tags"], MEASURES, "")]), "rollup r: by tags is ARRAY<STRING>"),
    (lambda: declare(column("n", sql="size(tags)"), TAGS), "is not known there"),
    (lambda: reference(TAGS), "reference movies: column tags is ARRAY<STRING>"),
    (lambda: declare(SPOT, column("n", formerly=("spot", "x"))), "formerly spot.x, and spot takes it now"),
    (lambda: declare(LABELS, column("n", formerly=("labels", "x"))), "formerly labels.x, and labels takes it now"),
    (lambda: declare(column("rated_day"), partition_by=Day("rated_at")), "column rated_day: the name is taken"),
    (one(type_="TIMESTAMP", pattern="%Y %%"), "column n: its pattern has %%"),
    (one(type_="TIMESTAMP", pattern="%Y%"), "column n: its pattern has %"),
    (one(null_erases=True, sql="id"), "column n: sql or null_erases, not both"),
    *[
        (one(type_="DATE", pattern=f"%Y-%m-%d {finer}"), f"column n: its pattern has {finer}, and a DATE drops it")
        for finer in ("%M", "%S", "%f")
    ],
    *[
        (one(type_="TIMESTAMP", pattern=pattern), f"column n: its pattern has {finer} and no {coarser}")
        for pattern, finer, coarser in [
            ("%Y-%d", "%d", "%m"),
            ("%Y-%m %H", "%H", "%d"),
            ("%Y-%m-%dT%H %S", "%S", "%M"),
            ("%Y-%m-%dT%H:%M.%f", "%f", "%S"),
        ]
    ],
    *[
        (one(type_="TIMESTAMP", pattern=f"%Y-%m-%dT%H:%M{offset}"), "column n: its pattern has the offset")
        for offset in (" -0330", "+01", " GMT+1", "-05:00 ", "+02:00[Europe/Berlin]", " (+0200)")
    ],
    *[
        (one(type_="TIMESTAMP", pattern=f"%Y-%m-%dT%H:%M{place}"), "column n: its pattern has .*, which says that")
        for place in (" EST", "CET", "[Europe/Berlin]")
    ],
    # key, version, partition
    (lambda: declare(key=["movie"]), "key column movie must be declared and required"),
    (lambda: declare(key=[], order="offset"), 'order="offset" is for tables with a key'),
    (lambda: declare(key=(), base=temperatures.base), "base is for tables with a key"),
    (lambda: declare(partition_by=Month("stars")), "partition_by: Month needs a column of TIMESTAMP"),
    (lambda: declare(column("n", keep=True), key=["n"]), "key column n must be declared and required"),
    # the table as a whole
    (lambda: declare(late=Late("seen_at", timedelta(1))), "late needs a TIMESTAMP or DATE column"),
    (lambda: declare(topic=""), "topic '' is no name that Kafka takes"),
    (lambda: declare(topic="t" * 250), "no name that Kafka takes"),
    (lambda: declare(checks=[Check("n", "id > 0", ""), Check("n", "id > 1", "")]), "check n: the name is taken"),
    (one(type_="DOUBLE", between=(0, 10**400)), "column n: between goes beyond what DOUBLE holds"),
    (one(type_="DOUBLE", between=(Decimal("sNaN"), 1)), "column n: between needs two numbers"),
    (lambda: rollup(name="duckdb_views"), "no table can be named duckdb_views: DuckDB"),
    # rollups
    *[
        (lambda name=name: rollup(name=name), f"two parts .*{name}")
        for name in ("ratings", "ratings_rejected", "ratings_topic")
    ],
    (lambda: rollup(name="by movie"), "names are lower case"),
    (lambda: declare(rollups=[*rollup().rollups, *rollup().rollups]), "two parts .*by_movie"),
    *[
        (lambda sql=sql: summed(sql), "measure m: a sum or mean of DOUBLE n depends on the order of its rows")
        for sql in ("AVG( `N` )", "CAST(mean(n) AS DECIMAL(18,2))")
    ],
    # references
    (lambda: reference(name="ratings"), "two parts .*ratings"),
    (lambda: reference(name="ratings_changes"), "two parts .*ratings_changes"),
    (lambda: reference(ID), "reference movies: two columns have the same name: id"),
    (lambda: reference(column("Title", "STRING")), "reference movies: column 'Title': names are lower case"),
    (lambda: reference(column("title", "TEXT")), "reference movies: column title: unknown type TEXT"),
    (lambda: reference(key=["title"]), "reference movies: key column title must be declared and required"),
    (lambda: reference(column("title"), key=["title"]), "reference movies: key column title must be"),
    (lambda: reference(key=["id", "id"]), "reference movies: key column id stands twice"),
]


@pytest.mark.parametrize(("made", "said"), REFUSED, ids=[said[:60] for _, said in REFUSED])
def test_a_declaration_that_would_corrupt_or_crash_is_refused(made: Made, said: str) -> None:
    with pytest.raises(DeclarationError, match=said) as refused:
        made()
    assert refused.value.what.startswith("Table '")
    assert len(refused.value.action) > 10, "it says what to do"


@pytest.mark.parametrize("name", sorted(DISALLOWED_NAMES))
def test_a_table_is_not_named_as_dagster_names_nothing(name: str) -> None:
    for made in (
        lambda: declare(name=name),
        lambda: rollup(name=name),
        lambda: reference(name=name),
    ):
        with pytest.raises(DeclarationError, match=f"no table can be named {name}|names are lower case"):
            made()


def test_every_column_of_the_change_feed_is_refused_as_a_key_of_that_name() -> None:
    table = declare()
    for ours in changes_layout(table, Settings()).names:
        if ours not in table.key:
            with pytest.raises(DeclarationError, match=ours):
                key(ours)


def test_every_column_of_ours_is_refused_as_a_declared_one() -> None:
    table = declare(column("n", keep=True), version="stars", partition_by=Month("rated_at"))
    ours = {*merged_layout(table, Settings()).names, *base_layout(table, Settings()).names} - set(table.by_name)
    assert ours
    for name in ours:
        with pytest.raises(DeclarationError, match=f"column '?{name}'?: "):
            replace(table, columns=[*table.columns, column(name)])


@dataclass(frozen=True)
class Owned(Column):
    """A column of somebody's own kind."""

    steward: str | int | None = None
    note: Any = None


def test_a_kind_of_column_of_somebody_elses_own_is_accepted_whatever_it_holds() -> None:
    made = Owned("own", "INT", doc="Own.", steward=3, note=object())
    assert replace(temperatures, columns=[*temperatures.columns, made]).by_name["own"] is made


def test_what_is_odd_and_does_no_harm_is_accepted() -> None:
    """Two columns of one field, a late column that is kept, a version in the key, a column without words."""
    same = column("seen_again_at", "TIMESTAMP", source="time", pattern="%Y-%m-%d %H:%M:%S")
    yearly = column("seen_at", "TIMESTAMP", pattern="%Y", keep=True)
    anything = [
        column("x", "DOUBLE", between=(0, float("inf"))),
        column("y", "DECIMAL(38,38)"),
        *[
            column(f"at_{place}", "TIMESTAMP", pattern=pattern)
            for place, pattern in enumerate(("%d.%m.%Y, %HhZ", "%Y-%m-%dT%H:%M:%S.%f+00:00", "%Y-01", "%Y%m%d%H%M UTC"))
        ],
        column("one", "INT", between=(0.5, 1.5)),
        column("cent", "DECIMAL(5,2)", between=(0.01, 0.01)),
        column("any_double", "DOUBLE", between=(float("-inf"), float("inf"))),
        Column("z", "INT", doc=""),
    ]
    values = [column(name) for name in ("number", "change", "place", "file", "count", "key", "kafka_offset")]
    columns = [ID, RATED_AT, STARS, same, yearly, *anything, *values]
    table = declare(
        columns=columns, version="id", late=Late("seen_at", timedelta(1)), retention=timedelta(hours=1), doc=""
    )
    build_defs([table]).get_repository_def()


def test_sums_that_do_not_depend_on_the_order_of_rows_are_accepted() -> None:
    for sql in ("sum(CAST(n AS DECIMAL(18,6)))", "max(n)", "count(n)", "sum(stars)"):
        assert summed(sql).rollups[0].measures["m"].sql == sql
    for exact in ("INT", "DECIMAL(9,2)"):
        assert summed("avg(n)", exact)


def test_two_declarations_share_no_table() -> None:
    table = rollup()
    for other in (
        table,
        replace(table, name="other", topic="other"),
        replace(table, name="by_movie", rollups=[]),
        replace(table, name="ratings_base", rollups=[]),
        replace(table, name="ratings_checks", rollups=[]),
    ):
        for check in (declared_together, lambda *tables: build_defs(tables)):
            with pytest.raises(DeclarationError, match="ratings|by_movie") as refused:
                check(table, other)
            assert refused.value.action
    other = replace(table, name="other", rollups=[])
    assert declared_together(table, other) == (table, other), "one topic may fill two tables"


@pytest.mark.parametrize("pattern", ["am %d.%m.%Y um %H:%M Uhr", "%H:%M %d/%m/%Y", "%Y-%m-%dT%H:%M:%S GMT"])
def test_words_of_a_pattern_that_shift_no_time_are_taken(pattern: str) -> None:
    assert one(type_="TIMESTAMP", pattern=pattern)()
