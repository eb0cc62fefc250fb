"""What would corrupt tables, or crash later, is refused where it is declared, by name and with the way on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dagster._core.definitions.utils import DISALLOWED_NAMES

from lakehouse.batch.load import base_layout
from lakehouse.declaration import (
    BrokerTime,
    Check,
    Column,
    Day,
    Late,
    Measure,
    Month,
    RecordHeader,
    RecordKey,
    Reference,
    Rollup,
    SampleRecords,
    StreamTable,
    Value,
    Year,
    declared_together,
)
from lakehouse.defs.build import build_defs
from lakehouse.delta.order import merged_layout
from lakehouse.derive.feed import changes_layout
from lakehouse.errors import DeclarationError
from lakehouse.settings import Settings
from lakehouse.tables.temperatures import temperatures

ID = Column("id", "BIGINT", required=True, doc="Number of the movie.")
RATED_AT = Column(
    "rated_at", "TIMESTAMP", required=True, source="time", pattern="%Y-%m-%d %H:%M:%S", doc="When it was rated."
)
STARS = Column("stars", "INT", between=(1, 5), doc="One to five.")
TAGS = Column("tags", "ARRAY<STRING>", "Words.")
SPOT = Column("spot", "STRUCT<x: DOUBLE>", "Where.")
LABELS = Column("labels", "MAP<STRING, STRING>", "Names.")
DOUBLES = Column("doubles", "ARRAY<DOUBLE>", "Numbers.")
MEASURES = {"ratings": Measure("count(*)", "BIGINT", "How many.")}


def declare(*columns: Column, **changes: Any) -> StreamTable:
    parts: dict[str, Any] = {"columns": [ID, RATED_AT, STARS, *columns], "key": ["id"]}
    return StreamTable(**{"name": "ratings", "topic": "ratings", "doc": "Ratings."} | parts | changes)


def column(name: str = "n", type_: str = "INT", **rules: Any) -> Column:
    return Column(name, type_, "A column.", **rules)


def key(name: str, *others: Column) -> StreamTable:
    return declare(column(name, required=True), *others, key=["id", name])


def rollup(**changes: Any) -> StreamTable:
    parts: dict[str, Any] = {"name": "by_movie", "by": ["id"], "measures": MEASURES, "doc": "By movie."}
    return declare(partition_by=Month("rated_at"), rollups=[Rollup(**parts | changes)])


def reference(*columns: Column, **changes: Any) -> StreamTable:
    parts: dict[str, Any] = {"name": "movies", "file": Path("movies.jsonl"), "key": ["id"], "doc": "The movies."}
    return declare(references=[Reference(**parts | {"columns": [ID, *columns]} | changes)])


def measured(sql: str, *more: Column) -> StreamTable:
    return declare(*more, rollups=[Rollup("r", ["id"], {"m": Measure(sql, "DOUBLE", "")}, "")])


def measures(*names: str, type_: str = "BIGINT") -> dict[str, Measure]:
    return {name: Measure("count(*)", type_, "") for name in names}


def summed(sql: str, type_: str = "DOUBLE") -> StreamTable:
    """A rollup of a DOUBLE column n, or one of another type."""
    totals = Rollup("by_movie", ["id"], {"total": Measure(sql, "DOUBLE", "")}, "By movie.")
    return declare(column("n", type_), rollups=[totals])


def one(**changes: Any) -> Callable[[], StreamTable]:
    """A table with one column of this kind."""
    return lambda: declare(column(**changes))


KEPT_AT = column("seen_at", "TIMESTAMP", pattern="%Y", keep=True)
REFUSED: Sequence[tuple[Callable[[], StreamTable], str]] = [
    # names of ours beside declared columns
    (one(name="_record"), "column '_record': names are lower case"),
    (one(name="n" * 201), "names are .* at most 200"),
    (lambda: declare(name="n" * 201), "names are .* at most 200"),
    *[(lambda name=name: key(name), f"key column {name}: .*taken in the key") for name in ("number", "committed_at")],
    *[(lambda name=name: key(name), f"key column {name}: .*taken in the key") for name in ("change", "reconciled")],
    (lambda: key("stars_before"), "key column stars_before: .*change feed's column for stars"),
    (lambda: key("stars_after"), "key column stars_after: .*change feed's column for stars"),
    (lambda: declare(column("rated_month"), partition_by=Month("rated_at")), "column rated_month: .*partition column"),
    # types and their rules
    (one(type_="DECIMAL(99,2)"), r"column n: DECIMAL\(99,2\) .*at most 38"),
    (one(type_="DECIMAL(0,0)"), "column n: no such type"),
    (one(type_="DECIMAL(2,5)"), r"column n: DECIMAL\(2,5\) has more places than digits"),
    (one(type_="DECIMAL(09,6)"), "column n: no such type"),
    (one(source=RecordHeader("\ud800")), "column n: its header is named by what is no text"),
    (
        lambda: declare(column("told_at", "TIMESTAMP", source=BrokerTime()), late=Late("told_at", timedelta(1))),
        "late: told_at is the broker's time itself",
    ),
    (one(type_="STRING", between=(1, 2)), "column n: between is for numbers"),
    (one(type_="BOOLEAN", between=(0, 1)), "column n: between is for numbers"),
    (one(type_="DATE", pattern="%Y-%m-%d", between=(0, 1)), "column n: between is for numbers"),
    (one(type_="TIMESTAMP", pattern="%Y-%m-%d", between=(0, 1)), "column n: between is for numbers"),
    (one(between=(5, 1)), "column n: between begins at 5 and ends at 1"),
    (one(type_="DOUBLE", between=(float("nan"), 1)), "column n: between needs two numbers"),
    (one(type_="DOUBLE", between=(0, float("nan"))), "column n: between needs two numbers"),
    (one(between=(None, 1)), "column n: between needs two numbers"),
    (one(between=("0", "1")), "column n: between needs two numbers"),
    (one(between=(True, 5)), "column n: between needs two numbers"),
    (one(between=(1,)), "column n: between needs two numbers"),
    (one(between=(0, 2**31)), "column n: between goes beyond what INT holds.*2147483647"),
    (one(type_="BIGINT", between=(-(2**63) - 1, 0)), "column n: between goes beyond what BIGINT holds"),
    (one(type_="DECIMAL(9,6)", between=(0, 1000)), r"between goes beyond what DECIMAL\(9,6\) holds.*999\.999999"),
    *[
        (one(type_=type_, between=between), f"column n: between .*: no value of {type_.replace('(', '.')[:7]}")
        for type_, between in [
            ("INT", (0.2, 0.8)),
            ("BIGINT", (Decimal("0.1"), Decimal("0.9"))),
            ("DECIMAL(5,2)", (0.001, 0.004)),
            ("DECIMAL(38,0)", (Decimal(f"{10**37}.1"), Decimal(f"{10**37}.9"))),
            ("DOUBLE", (float("inf"), float("inf"))),
            ("DOUBLE", (float("-inf"), float("-inf"))),
        ]
    ],
    (one(type_="INT", pattern="%Y"), "column n: pattern is for a TIMESTAMP or DATE"),
    (one(type_="INT", epoch="seconds"), "column n: epoch is for a TIMESTAMP or DATE"),
    (one(type_="TIMESTAMP"), "column n: a time needs a pattern.*'%Y-%m-%dT%H:%M', or epoch='seconds'"),
    (one(type_="DATE"), "column n: a time needs a pattern.*pattern='%Y-%m-%d', or epoch='days'"),
    (one(type_="TIMESTAMP", pattern="%Y", epoch="seconds"), "column n: pattern or epoch, not both"),
    (one(type_="TIMESTAMP", epoch="days"), "column n: its epoch is days, and it is a TIMESTAMP"),
    (one(type_="DATE", epoch="seconds"), "column n: its epoch is seconds, and it is a DATE"),
    (one(type_="TIMESTAMP", epoch="hours"), "column n: epoch is seconds or milliseconds or microseconds or days"),
    (one(source=BrokerTime()), "column n: a broker time is a TIMESTAMP as it is"),
    (one(type_="TIMESTAMP", source=BrokerTime(), epoch="seconds"), "column n: a broker time is a TIMESTAMP as it is"),
    (one(source=RecordHeader("")), "column n: its source names no field"),
    (one(source=RecordHeader(5)), "column n: source: name is text, and not 5"),  # type: ignore[arg-type]
    (lambda: declare(column(source=RecordKey()), base=temperatures.base), "column n is no field of its own"),
    (lambda: reference(column(source=RecordKey())), "reference movies: column n: its source is for records"),
    (one(source=""), "column n: its source names no field"),
    (one(source=()), "column n: its source names no field"),
    (one(formerly=""), "column n: formerly names no field"),
    (one(formerly="n"), "column n: formerly is the name that it has: n"),
    (one(formerly=("m",), source=RecordKey()), "column n: formerly is for fields of a record's value"),
    (one(source=("a", 5)), "column n: source: each is text, and not 5"),
    (one(default=1, required=True), "column n: required or default, not both"),
    (one(default=1, keep=True), "column n: keep or default, not both"),
    (one(default="1"), "column n: its default cannot be read: 'n' is text '1', expected INT"),
    (one(default=7, between=(0, 5)), "column n: its default cannot be read: 'n' is '7', allowed is 0 to 5"),
    (one(type_="DATE", pattern="%Y-%m-%d", default="2023-02-30"), "column n: its default cannot be read"),
    (one(default=[]), "column n: default is text or True or False or a number, and not"),
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
    (lambda: declare(partition_by=Value("id")), "partition_by id is the whole key"),
    (lambda: declare(partition_by=Month("rated_at"), cluster_by=["id"]), "partition_by or cluster_by, not both"),
    (lambda: declare(cluster_by=["nope"]), "cluster_by is no column: nope"),
    (lambda: declare(TAGS, cluster_by=["tags"]), "cluster_by tags is ARRAY<STRING>"),
    (lambda: declare(TAGS, version="tags"), "version tags is ARRAY<STRING>"),
    (lambda: declare(replace(TAGS, required=True), key=["tags"]), "key tags is ARRAY<STRING>"),
    (lambda: declare(TAGS, rollups=[Rollup("r", ["tags"], MEASURES, "")]), "rollup r: by tags is ARRAY<STRING>"),
    (lambda: declare(column("n", sql="size(tags)"), TAGS), "is not known there"),
    (lambda: reference(TAGS), "reference movies: column tags is ARRAY<STRING>"),
    (lambda: replace(temperatures, columns=[*temperatures.columns, TAGS]), "base files have plain values"),
    (lambda: declare(SPOT, column("n", formerly=("spot", "x"))), "formerly spot.x, and spot takes it now"),
    (lambda: declare(LABELS, column("n", formerly=("labels", "x"))), "formerly labels.x, and labels takes it now"),
    (lambda: measured("sum(CAST(doubles AS ARRAY<DOUBLE>)[0])", DOUBLES), "a sum or mean of DOUBLE doubles depends"),
    (lambda: measured("sum(spot.x)", SPOT), "a sum or mean of DOUBLE spot depends on the order"),
    (lambda: declare(cluster_by=["id", "id"]), "cluster_by id stands twice"),
    (lambda: declare(column("n", "DOUBLE"), cluster_by=["n"]), "cluster_by n is DOUBLE"),
    (lambda: declare(cluster_by=["id"] * 5), "cluster_by has 5 columns"),
    (lambda: declare(column(source=("a", "b")), base=temperatures.base), "column n is no field of its own"),
    (lambda: declare(column("rated_day"), partition_by=Day("rated_at")), "column rated_day: the name is taken"),
    (one(type_="TIMESTAMP", pattern="%Y-%m-%dT%H:%M%z"), "column n: its pattern has %z"),
    (one(type_="TIMESTAMP", pattern="%Y %%"), "column n: its pattern has %%"),
    (one(type_="TIMESTAMP", pattern="%Y%"), "column n: its pattern has %"),
    (one(type_="TIMESTAMP", pattern="%Y\ud800"), "column n: its pattern is no text in UTF-8"),
    (one(null_erases=True), "column n: null_erases and no keep"),
    (one(keep=True, null_erases=True, source=RecordKey()), "column n: null_erases is for fields of a record's value"),
    (one(null_erases=True, sql="id"), "column n: sql or null_erases, not both"),
    (one(type_="STRING", source=RecordKey("big_endian")), "its key is the bytes of a number, and it is STRING"),
    (one(source=RecordKey("bytes")), "column n: source: written is text or any_text"),  # type: ignore[arg-type]
    (one(null_values=("1e99999999999999999999",)), "column n: its null_values have a number that is beyond any"),
    (lambda: declare(samples=SampleRecords([{"id": Decimal(1)}])), "its samples are no JSON"),
    (one(type_="TIMESTAMP", pattern="%Y %Y"), "column n: its pattern has %Y twice"),
    (one(type_="TIMESTAMP", pattern="%H:%M"), "column n: its pattern has no %Y"),
    *[
        (one(type_="DATE", pattern=f"%Y-%m-%d {finer}"), f"column n: its pattern has {finer}, and a DATE drops it")
        for finer in ("%H", "%M", "%S", "%f")
    ],
    *[
        (one(type_="TIMESTAMP", pattern=pattern), f"column n: its pattern has {finer} and no {coarser}")
        for pattern, finer, coarser in [
            ("%Y-%d", "%d", "%m"),
            ("%Y-%m %H", "%H", "%d"),
            ("%Y-%m-%d %M", "%M", "%H"),
            ("%Y-%m-%dT%H %S", "%S", "%M"),
            ("%Y-%m-%dT%H:%M.%f", "%f", "%S"),
        ]
    ],
    *[
        (one(type_="TIMESTAMP", pattern=f"%Y-%m-%dT%H:%M{offset}"), "column n: its pattern has the offset")
        for offset in ("+02:00", " -0330", "+01", " GMT+1", "-05:00 ", "+02:00[Europe/Berlin]", " (+0200)")
    ],
    *[
        (one(type_="TIMESTAMP", pattern=f"%Y-%m-%dT%H:%M{place}"), "column n: its pattern has .*, which says that")
        for place in (" PM", " EST", "CET", "[Europe/Berlin]")
    ],
    # key, version, partition
    (lambda: declare(key=["id", "id"]), "key column id stands twice"),
    (lambda: declare(column("n", keep=True), key=["n"]), "key column n must be declared and required"),
    (lambda: declare(column("n", keep=True), version="n"), "version n is kept"),
    (lambda: declare(column("n", "BOOLEAN"), version="n"), "version n is BOOLEAN"),
    (lambda: declare(KEPT_AT, partition_by=Month("seen_at")), "partition_by seen_at is kept"),
    (lambda: declare(order="offsets"), "order is timestamp or offset"),
    # the table as a whole
    (lambda: declare(retention=timedelta(minutes=59)), "retention is less than an hour"),
    (lambda: declare(retention=7), "retention is a timedelta"),
    (lambda: declare(retention=None), "retention is a timedelta"),
    (lambda: declare(retention=timedelta.max), "retention is more than a hundred years"),
    (lambda: declare(partitions=10**9), "partitions is at most 10000"),
    (lambda: declare(late=Late("rated_at", 7)), "late: after is a timedelta"),  # type: ignore[arg-type]
    (lambda: declare(partitions="3"), "partitions is a whole number"),
    (lambda: declare(partitions=0), "partitions is at least 1"),
    (lambda: declare(topic=""), "topic '' is no name that Kafka takes"),
    (lambda: declare(topic="a/b"), "topic 'a/b' is no name that Kafka takes"),
    (lambda: declare(topic=".."), "no name that Kafka takes"),
    (lambda: declare(topic="t" * 250), "no name that Kafka takes"),
    (lambda: declare(owner="somebody"), "owner 'somebody' is neither a team nor an address"),
    # fields of another type
    *[
        (lambda name=name, value=value: declare(**{name: value}), f"{name} is {said}, and not ")
        for name, value, said in [
            ("topic", None, "text"),
            ("doc", 3, "text"),
            ("owner", None, "text"),
            ("file", None, "text"),
            ("version", 5, "text"),
            ("max_records", True, "a whole number"),
            ("format", None, "a Json or an Avro"),
            ("base", 5, "a Rows"),
            ("samples", 5, "a Samples"),
            ("partition_by", "rated_at", "a Day or a Month or a Year or a Value"),
            ("late", "rated_at", "a Late"),
            ("rollups", iter([ID]), "a list or tuple"),
            ("rollups", 5, "a list or tuple"),
            ("references", None, "a list or tuple"),
            ("columns", (each for each in [ID, RATED_AT]), "a list or tuple"),
            ("columns", {ID}, "a list or tuple"),
            ("key", (each for each in ["id"]), "a list or tuple"),
            ("key", {"id"}, "a list or tuple"),
            ("key", {"id": 1}, "a list or tuple"),
            ("key", "id", "a list or tuple"),
            ("key", None, "a list or tuple"),
        ]
    ],
    (lambda: declare(key=["id", 5]), "key: each is text, and not 5"),
    (lambda: declare("n"), "columns: each is a Column, and not 'n'"),  # type: ignore[arg-type]
    (lambda: declare(rollups=["n"]), "rollups: each is a Rollup, and not 'n'"),
    (lambda: declare(checks=["n"]), "checks: each is a Check, and not 'n'"),
    (lambda: declare(checks=[Check("a b", "id > 0", "")]), "check 'a b': names are lower case"),
    (lambda: declare(checks=[Check("totals", "id > 0", "")]), "check totals: the name is taken"),
    (lambda: declare(checks=[Check("n", "id > 0", ""), Check("n", "id > 1", "")]), "check n: the name is taken"),
    (lambda: declare(checks=[Check("n", " ", "")]), "check n: has no SQL"),
    (lambda: declare(checks=[Check("n", "id > 0", "", "fatal")]), "check n: severity is warn or error"),  # type: ignore[arg-type]
    (one(name=5), "name is text, and not 5"),
    (one(type_=None), "column n: type is text, and not None"),
    (lambda: declare(Column("n", "INT", doc=3)), "column n: doc is text, and not 3"),  # type: ignore[arg-type]
    (one(required="yes"), "column n: required is True or False, and not 'yes'"),
    (one(keep=1), "column n: keep is True or False, and not 1"),
    (
        one(source=5),
        "column n: source is text or a list or tuple or a RecordKey or .*BrokerTime, and not 5",
    ),
    (one(pattern=5), "column n: pattern is text, and not 5"),
    (one(between=5), "column n: between is a list or tuple, and not 5"),
    (one(between="05"), "column n: between is a list or tuple, and not '05'"),
    (one(type_="DOUBLE", between=(0, 10**400)), "column n: between goes beyond what DOUBLE holds"),
    (one(type_="DOUBLE", between=(Decimal("sNaN"), 1)), "column n: between needs two numbers"),
    (lambda: declare(late=Late(5, timedelta(1))), "late: column is text, and not 5"),  # type: ignore[arg-type]
    (lambda: declare(partition_by=Month(None)), "partition_by: column is text"),  # type: ignore[arg-type]
    (lambda: rollup(by=(each for each in ["id"])), "rollup by_movie: by is a list or tuple"),
    (lambda: rollup(by="id"), "rollup by_movie: by is a list or tuple"),
    (lambda: rollup(measures=["n"]), "rollup by_movie: measures is a dict"),
    (lambda: rollup(measures={5: Measure("1", "INT", "")}), "rollup by_movie: measures: each name is text, and not 5"),
    (lambda: rollup(measures={"n": Measure(None, "INT", "")}), "measure n: sql is text"),  # type: ignore[arg-type]
    (lambda: rollup(measures={"n": "count(*)"}), "measure n is a Measure, and not 'count"),
    (lambda: reference(file="movies.jsonl"), "reference movies: file is a Path, and not 'movies"),
    (lambda: reference(key="id"), "reference movies: key is a list or tuple"),
    (lambda: reference(columns=(each for each in [ID])), "reference movies: columns is a list or tuple"),
    (lambda: reference(Column("n", None, "")), "reference movies: column n: type is text"),  # type: ignore[arg-type]
    (lambda: declare(name="duckdb_tables"), "no table can be named duckdb_tables: DuckDB"),
    (lambda: rollup(name="duckdb_views"), "no table can be named duckdb_views: DuckDB"),
    # rollups
    *[(lambda name=name: rollup(name=name), f"two parts .*{name}") for name in ("ratings", "ratings_base")],
    *[(lambda name=name: rollup(name=name), f"two parts .*{name}") for name in ("ratings_rejected", "ratings_topic")],
    (lambda: declare(rollups=[*rollup().rollups, *rollup().rollups]), "two parts .*by_movie"),
    (lambda: rollup(by=[]), "rollup by_movie: groups by nothing"),
    (lambda: rollup(by=["id", "id"]), "rollup by_movie: groups by id twice"),
    (lambda: rollup(measures={}), "rollup by_movie: has no measure"),
    (lambda: rollup(measures=measures("id")), "rollup by_movie: measure id is named like a column it groups by"),
    (lambda: rollup(measures=measures("Ratings")), "measure 'Ratings': names are lower case"),
    (lambda: rollup(measures={"n": Measure(" ", "BIGINT", "")}), "measure n: has no SQL"),
    (lambda: rollup(measures=measures("n", type_="NUMBER")), "measure n: no such type NUMBER"),
    *[
        (lambda sql=sql: summed(sql), "measure total: a sum or mean of DOUBLE n depends on the order of its rows")
        for sql in ("sum(n)", "AVG( `N` )", "CAST(mean(n) AS DECIMAL(18,2))")
    ],
    # references
    (lambda: reference(name="Movies"), "names are lower case"),
    (lambda: reference(name="ratings"), "two parts .*ratings"),
    (lambda: reference(name="ratings_changes"), "two parts .*ratings_changes"),
    (lambda: reference(ID), "reference movies: two columns have the same name: id"),
    (lambda: reference(column("Title", "STRING")), "reference movies: column 'Title': names are lower case"),
    (lambda: reference(column("title", "TEXT")), "reference movies: column title: no such type TEXT"),
    (lambda: reference(column("title", keep=True)), "reference movies: column title: keep is for records"),
    (lambda: reference(key=[]), "reference movies: a table needs a key"),
    (lambda: reference(key=["title"]), "reference movies: key column title must be declared and required"),
    (lambda: reference(column("title"), key=["title"]), "reference movies: key column title must be"),
    (lambda: reference(key=["id", "id"]), "reference movies: key column id stands twice"),
]


@pytest.mark.parametrize(("made", "said"), REFUSED, ids=[said[:60] for _, said in REFUSED])
def test_a_declaration_that_would_corrupt_or_crash_is_refused(made: Callable[[], StreamTable], said: str) -> None:
    with pytest.raises(DeclarationError, match=said) as refused:
        made()
    assert refused.value.what.startswith("Table '")
    assert len(refused.value.action) > 10, "it says what to do"


def test_a_table_without_a_name_is_refused() -> None:
    with pytest.raises(DeclarationError, match="Table None: name is text, and not None"):
        declare(name=None)


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
        assert summed(sql).rollups[0].measures["total"].sql == sql
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
