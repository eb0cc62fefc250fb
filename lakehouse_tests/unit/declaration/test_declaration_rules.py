"""A declaration that would corrupt tables or fail later is refused when it is created, with advice."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from dagster._core.definitions.utils import DISALLOWED_NAMES

from lakehouse.declaration import (
    Check,
    Column,
    Computed,
    Day,
    Late,
    Month,
    Rollup,
    StreamTable,
    Time,
    Topic,
    Upkeep,
    Value,
    Year,
)
from lakehouse.declaration.table import require_distinct_names
from lakehouse.defs.build import build_defs
from lakehouse.derived.feed import changes_layout
from lakehouse.errors import DeclarationError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.load import base_layout
from lakehouse.settings import Settings
from lakehouse.storage.row_order import merged_layout
from lakehouse_tests.helpers.tables.tables import redeclare
from lakehouse_tests.unit.declaration.ratings import (
    ID,
    LABELS,
    MEASURES,
    SPOT,
    TAGS,
    TableFactory,
    column,
    declare,
    declare_reference,
    declare_rollup,
    declare_sum,
    oldest,
    with_column,
)

NAME_RULE = "a name has at most 200 lower-case letters"


def declare_key(name: str, *columns: Column) -> StreamTable:
    return declare(column(name, required=True), *columns, key=["id", name])


REFUSALS: Sequence[tuple[TableFactory, str]] = [
    # reserved names of columns
    (with_column(name="_record"), f"column '_record': {NAME_RULE}"),
    (with_column(name="stars'; --"), NAME_RULE),
    (with_column(name="n" * 201), NAME_RULE),
    (lambda: declare(name="n" * 201), NAME_RULE),
    *[
        (lambda name=name: declare_key(name), f"key column {name}: .*the name is used by a column of the change feed")
        for name in ("committed_at", "change", "reconciled")
    ],
    (lambda: declare_key("stars_before"), "key column stars_before: .*change feed's column for stars"),
    (lambda: declare_key("stars_after"), "key column stars_after: .*change feed's column for stars"),
    # types and their rules
    (with_column(type_="DECIMAL(0,0)"), "column n: unknown type"),
    (with_column(type_="DECIMAL(9)"), "column n: unknown type"),
    (with_column(type_="DECIMAL(09,6)"), "column n: unknown type"),
    *[
        (
            with_column(type_=type_, written=pattern and Time(pattern), between=(0, 1)),
            "column n: between is only allowed for numbers",
        )
        for type_, pattern in [("BOOLEAN", None), ("DATE", "%Y-%m-%d"), ("TIMESTAMP", "%Y-%m-%d")]
    ],
    (with_column(type_="DOUBLE", between=(float("nan"), 1)), "column n: between must be two numbers"),
    (with_column(type_="DOUBLE", between=(0, float("nan"))), "column n: between must be two numbers"),
    (with_column(between=("0", "1")), "column n: between must be two numbers"),
    (with_column(between=(True, 5)), "column n: between must be two numbers"),
    (with_column(between=(1,)), "column n: between must be two numbers"),
    (with_column(type_="BIGINT", between=(-(2**63) - 1, 0)), "column n: between exceeds the range of BIGINT"),
    (
        with_column(type_="DECIMAL(9,6)", between=(0, 1000)),
        r"between exceeds the range of DECIMAL\(9,6\).*999\.999999",
    ),
    *[
        (with_column(type_=type_, between=between), f"column n: between .* no value of {type_.replace('(', '.')[:7]}")
        for type_, between in [
            ("BIGINT", (Decimal("0.1"), Decimal("0.9"))),
            ("DECIMAL(5,2)", (0.001, 0.004)),
            ("DECIMAL(38,0)", (Decimal(f"{10**37}.1"), Decimal(f"{10**37}.9"))),
            ("DOUBLE", (float("inf"), float("inf"))),
            ("DOUBLE", (float("-inf"), float("-inf"))),
        ]
    ],
    (with_column(default=7, between=(0, 5)), "column n: the default cannot be read: 'n' is '7', allowed is 0 to 5"),
    *[
        (
            lambda by=by: declare(column("d", "DATE", written=Time("%Y")), partition_by=by),
            f"partition_by: {message}",
        )
        for by, message in [
            (Day("d"), "Day requires a column of type TIMESTAMP"),
            (Day("none"), "Day requires a column of type TIMESTAMP"),
            (Year("id"), "Year requires a column of type TIMESTAMP or DATE"),
            (Value("rated_at"), "Value requires a column of type DATE or INT or BIGINT"),
        ]
    ],
    (lambda: declare(column("n", "STRING"), partition_by=Value("n")), "Value requires a column of type DATE or INT"),
    (
        lambda: declare(TAGS, upkeep=Upkeep(cluster_by=["tags"])),
        "cluster_by cannot use column tags of type ARRAY<STRING>",
    ),
    (lambda: declare(TAGS, version="tags"), "version cannot use column tags of type ARRAY<STRING>"),
    (lambda: declare(replace(TAGS, required=True), key=["tags"]), "key cannot use column tags of type ARRAY<STRING>"),
    (
        lambda: declare(TAGS, rollups=[Rollup("r", ["tags"], MEASURES, "")]),
        "rollup r: by cannot use column tags of type ARRAY<STRING>",
    ),
    (lambda: declare(Computed("n", "INT", "size(tags)", "A size."), TAGS), "tags is ARRAY<STRING>"),
    (lambda: declare_reference(TAGS), "reference movies: column tags cannot have type ARRAY<STRING>"),
    (lambda: declare(SPOT, column("n", formerly=("spot", "x"))), "formerly spot.x, but column spot reads it now"),
    (lambda: declare(LABELS, column("n", formerly=("labels", "x"))), "formerly labels.x, but column labels reads it"),
    (lambda: declare(column("rated_day"), partition_by=Day("rated_at")), "column rated_day: the name is used by the"),
    (with_column(type_="TIMESTAMP", written=Time("%Y %%")), "column n: the pattern contains %%"),
    (with_column(type_="TIMESTAMP", written=Time("%Y%")), "column n: the pattern contains %,"),
    *[
        (
            with_column(type_="DATE", written=Time(f"%Y-%m-%d {finer}")),
            f"column n: .* contains {finer}, which a DATE drops",
        )
        for finer in ("%M", "%S", "%f")
    ],
    *[
        (
            with_column(type_="TIMESTAMP", written=Time(pattern)),
            f"column n: the pattern contains {finer} but no {coarser}",
        )
        for pattern, finer, coarser in [
            ("%Y-%d", "%d", "%m"),
            ("%Y-%m %H", "%H", "%d"),
            ("%Y-%m-%dT%H %S", "%S", "%M"),
            ("%Y-%m-%dT%H:%M.%f", "%f", "%S"),
        ]
    ],
    *[
        (
            with_column(type_="TIMESTAMP", written=Time(f"%Y-%m-%dT%H:%M{offset}")),
            "column n: the pattern contains the offset",
        )
        for offset in (" -0330", "+01", " GMT+1", "-05:00 ", "+02:00[Europe/Berlin]", " (+0200)")
    ],
    *[
        (
            with_column(type_="TIMESTAMP", written=Time(f"%Y-%m-%dT%H:%M{place}")),
            f"column n: .* contains .*, {reason}",
        )
        for place, reason in {
            " EST": "which is the time of a part of the year",
            "CET": "which is the time of a part of the year",
            "[Europe/Berlin]": "so the time is not in UTC",
            " pm": "so the time is not on a 24-hour clock",
        }.items()
    ],
    # key, version, partition
    (lambda: declare(key=[], source=Topic("ratings", order="offset")), 'order="offset" requires a key'),
    (lambda: declare(key=(), base=temperatures.base), "base requires a key"),
    (lambda: declare(partition_by=Month("stars")), "partition_by: Month requires a column of type TIMESTAMP"),
    (lambda: declare(column("n", keep=True), key=["n"]), "key column n is not required"),
    # the table as a whole
    (lambda: declare(late=Late("seen_at", timedelta(1))), "late requires a TIMESTAMP or DATE column"),
    (lambda: declare(topic="t" * 250), "not a valid name in Kafka"),
    (lambda: declare(checks=[Check("n", "id > 0", ""), Check("n", "id > 1", "")]), "check n: the name is already used"),
    (with_column(type_="DOUBLE", between=(0, 10**400)), "column n: between exceeds the range of DOUBLE"),
    (with_column(type_="DOUBLE", between=(Decimal("sNaN"), 1)), "column n: between must be two numbers"),
    (lambda: declare_rollup(name="duckdb_views"), "the name 'duckdb_views' is reserved: DuckDB"),
    # rollups
    *[
        (lambda name=name: declare_rollup(name=name), f"two parts .*{name}")
        for name in ("ratings", "ratings_rejected", "ratings_topic")
    ],
    (lambda: declare_rollup(name="by movie"), NAME_RULE),
    (lambda: declare(rollups=[*declare_rollup().rollups, *declare_rollup().rollups]), "two parts .*by_movie"),
    *[
        (lambda sql=sql: declare_sum(sql), "measure m: a sum or mean of DOUBLE n depends on the order of its rows")
        for sql in ("AVG( `N` )", "CAST(mean(n) AS DECIMAL(18,2))")
    ],
    # references
    (lambda: declare_reference(name="ratings"), "two parts .*ratings"),
    (lambda: declare_reference(name="ratings_changes"), "two parts .*ratings_changes"),
    (lambda: declare_reference(ID), "reference movies: two columns have the same name: id"),
    (lambda: declare_reference(column("Title", "STRING")), f"reference movies: column 'Title': {NAME_RULE}"),
    (lambda: declare_reference(column("title", "TEXT")), "reference movies: column title: unknown type TEXT"),
    (lambda: declare_reference(key=["title"]), "reference movies: unknown column in key: title"),
    (lambda: declare_reference(column("title"), key=["title"]), "reference movies: key column title is not required"),
    (lambda: declare_reference(key=["id", "id"]), "reference movies: key column id is listed twice"),
]


@pytest.mark.parametrize(("make_table", "message"), REFUSALS, ids=[message[:60] for _, message in REFUSALS])
def test_a_declaration_that_would_corrupt_tables_or_fail_is_refused(make_table: TableFactory, message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as raised:
        make_table()
    assert raised.value.what.startswith("Table '")
    assert len(raised.value.action) > 10, "it says what to do"


@pytest.mark.parametrize("name", sorted(DISALLOWED_NAMES))
def test_names_that_dagster_reserves_are_refused(name: str) -> None:
    for make_table in (
        lambda: declare(name=name),
        lambda: declare_rollup(name=name),
        lambda: declare_reference(name=name),
    ):
        with pytest.raises(DeclarationError, match=rf"the name( '{name}')? is reserved by Dagster|{NAME_RULE}"):
            make_table()


def test_a_key_cannot_have_the_name_of_a_column_of_the_change_feed() -> None:
    table = declare()
    for name in changes_layout(table, Settings()).names:
        if name not in table.key:
            with pytest.raises(DeclarationError, match=name):
                declare_key(name)


def test_a_column_cannot_have_the_name_of_a_column_that_a_table_adds() -> None:
    table = declare(column("n", keep=True), version=oldest("stars"), partition_by=Month("rated_at"))
    added_names = {*merged_layout(table, Settings()).names, *base_layout(table, Settings()).names} - set(table.by_name)
    assert added_names
    for name in added_names:
        with pytest.raises(DeclarationError, match=f"column '?{name}'?: "):
            replace(table, columns=[*table.columns, column(name)])


def test_two_declarations_share_no_table() -> None:
    table = declare_rollup()
    for other_table in (
        table,
        redeclare(table, name="other", topic="other"),
        replace(table, name="by_movie", rollups=[]),
        replace(table, name="ratings_base", rollups=[]),
        replace(table, name="ratings_checks", rollups=[]),
    ):
        for check in (require_distinct_names, lambda *tables: build_defs(tables)):
            with pytest.raises(DeclarationError, match="ratings|by_movie") as raised:
                check(table, other_table)
            assert raised.value.action
    other_table = replace(table, name="other", rollups=[])
    assert require_distinct_names(table, other_table) == (table, other_table), "one topic may fill two tables"


@pytest.mark.invariant("13.2")
@pytest.mark.parametrize("pattern", ["%Y-%m-%d %H", "%Y-%m-%dT%H:%M:%S"])
def test_a_date_whose_pattern_has_an_hour_is_refused(pattern: str) -> None:
    with pytest.raises(DeclarationError, match="column n: the pattern contains %H, which a DATE drops"):
        with_column(type_="DATE", written=Time(pattern))()
