"""Materialized views: what is stored, when it is computed again, and what a failure leaves."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.declaration import View
from lakehouse.errors import ConflictError, QueryError, TableError
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import ledger_of
from lakehouse.operations import materialize
from lakehouse.operations.materialize import Materialization, ViewUpdate
from lakehouse.query import query
from lakehouse.settings import Settings
from lakehouse.storage.delta_rs_writer import create_with_rows, replace_all
from lakehouse_tests.unit.views.orders import add_customers, add_orders

DEAR = View("dear", "SELECT id, customer, price FROM orders WHERE price > 10", "A dear order.")
SPENT = View(
    "spent",
    "SELECT city, sum(price) AS total FROM dear JOIN customers ON customer = customers.id GROUP BY city",
    "What a city spent on dear orders.",
    materialized=True,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path, sync=False)
    add_orders(settings, ("1", "ann", "5.00"), ("2", "ann", "15.00"), ("3", "bob", "25.00"))
    add_customers(settings, ("ann", "Oslo"), ("bob", "Bern"))
    return settings


def spent(settings: Settings, *views: View) -> Materialization:
    return Materialization(settings, SPENT, views or (DEAR, SPENT))


def stored_rows(settings: Settings, name: str = "spent") -> list[dict[str, Any]]:
    rows = DeltaTable(settings.table_uri(name)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: str(row.values()))


def test_every_row_is_stored_and_the_commit_names_the_versions_of_the_tables(settings: Settings) -> None:
    add_orders(settings, ("4", "ann", "1.00"))
    update = spent(settings).update("run-7")
    assert update == ViewUpdate("spent", 0, {"customers": 0, "orders": 1}, 2)
    assert stored_rows(settings) == [
        {"city": "Bern", "total": Decimal("25.00")},
        {"city": "Oslo", "total": Decimal("15.00")},
    ]
    newest = ledger_of(settings, "spent").newest
    assert newest is not None
    assert (newest.commit.kind, newest.commit.run) == ("derived", "run-7")
    tables = {name: version_to_consume(ledger_of(settings, name)) for name in ("customers", "orders")}
    assert newest.commit.consumed_tables == tables


def test_a_second_update_without_news_writes_nothing(settings: Settings) -> None:
    spent(settings).update()
    assert spent(settings).find_news() == ()
    assert spent(settings).update() == ViewUpdate("spent", 0, {"customers": 0, "orders": 0}, None)
    assert DeltaTable(settings.table_uri("spent")).version() == 0


def test_news_of_one_table_replaces_all_rows(settings: Settings) -> None:
    spent(settings).update()
    DeltaTable(settings.table_uri("orders")).delete("customer = 'ann'")
    assert spent(settings).find_news() == ("orders",)
    assert spent(settings).update().versions == {"customers": 0, "orders": 1}
    assert stored_rows(settings) == [{"city": "Bern", "total": Decimal("25.00")}]


def test_maintenance_of_a_table_is_no_news(settings: Settings) -> None:
    add_orders(settings, ("4", "ann", "15.00"))
    spent(settings).update()
    DeltaTable(settings.table_uri("orders")).optimize.compact()
    assert spent(settings).find_news() == ()


def test_a_table_that_was_created_again_is_news(settings: Settings) -> None:
    spent(settings).update()
    rows = pa.table({"id": ["ann"], "city": ["Rome"]})
    write_deltalake(settings.table_uri("customers"), rows, mode="overwrite")
    DeltaTable(settings.table_uri("customers")).restore(0)
    assert spent(settings).find_news() == ("customers",)


@pytest.mark.parametrize(
    ("plain_view", "own_sql", "columns"),
    [
        (View("dear", "SELECT id, customer, price FROM orders", "An order."), SPENT.sql, ["city", "total"]),
        (DEAR, SPENT.sql.replace("sum(price) AS total", "count(*) AS number"), ["city", "number"]),
    ],
)
def test_another_query_is_news_also_of_a_view_that_is_read(
    settings: Settings, plain_view: View, own_sql: str, columns: list[str]
) -> None:
    spent(settings).update()
    changed_view = View("spent", own_sql, SPENT.doc, materialized=True)
    changed = Materialization(settings, changed_view, (plain_view, changed_view))
    assert changed.find_news() == ("spent",)
    assert changed.update().rows == 2
    assert list(stored_rows(settings)[0]) == columns


@pytest.mark.parametrize("step", ["view_consumptions", "open_versions"])
def test_a_run_that_began_earlier_replaces_no_rows_of_newer_versions(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    spent(settings).update()
    add_orders(settings, ("4", "ann", "15.00"))
    real_step = getattr(materialize, step)

    def be_overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(materialize, step, real_step)
        result = real_step(*arguments)
        add_orders(settings, ("5", "bob", "100.00"))
        assert spent(settings).update("newer").versions == {"customers": 0, "orders": 2}
        return result

    monkeypatch.setattr(materialize, step, be_overtaken)
    assert spent(settings).update("older").versions == {"customers": 0, "orders": 2}
    assert [row["total"] for row in stored_rows(settings)] == [Decimal("125.00"), Decimal("30.00")]
    assert [entry.commit.run for entry in ledger_of(settings, "spent").entries] == ["newer", "cli"]


def test_a_first_run_that_began_earlier_replaces_no_rows_of_newer_versions(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_step = getattr(materialize, "open_versions")  # noqa: B009 - it is not exported

    def be_overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(materialize, "open_versions", real_step)
        add_orders(settings, ("5", "bob", "100.00"))
        spent(settings).update("newer")
        return real_step(*arguments)

    monkeypatch.setattr(materialize, "open_versions", be_overtaken)
    spent(settings).update("older")
    assert [row["total"] for row in stored_rows(settings)] == [Decimal("125.00"), Decimal("15.00")]


def test_rows_that_another_program_or_a_restore_changed_are_computed_again(settings: Settings) -> None:
    spent(settings).update()
    DeltaTable(settings.table_uri("spent")).delete("city = 'Bern'")
    assert spent(settings).find_news() == ("spent",)
    spent(settings).update()
    DeltaTable(settings.table_uri("spent")).restore(1)
    assert spent(settings).find_news() == ("spent",)
    assert spent(settings).update().rows == 2
    assert [row["city"] for row in stored_rows(settings)] == ["Bern", "Oslo"]


def test_a_view_reads_the_stored_rows_of_a_materialized_one(settings: Settings) -> None:
    total = View("total", "SELECT sum(total)::DECIMAL(18,2) AS total FROM spent", "One sum.", materialized=True)
    views = (DEAR, SPENT, total)
    with pytest.raises(TableError, match="View total reads spent, which does not exist yet"):
        Materialization(settings, total, views).update()
    spent(settings).update()
    assert Materialization(settings, total, views).update().versions == {"spent": 0}
    add_orders(settings, ("4", "ann", "60.00"))
    assert Materialization(settings, total, views).find_news() == ()
    spent(settings).update()
    assert Materialization(settings, total, views).find_news() == ("spent",)
    Materialization(settings, total, views).update()
    assert stored_rows(settings, "total") == [{"total": Decimal("100.00")}]


def test_values_of_every_type_of_a_table_are_stored_as_they_are(settings: Settings) -> None:
    sql = """SELECT id, price, 7::INT AS number, 0.5::DOUBLE AS share, true AS is_new, DATE '1582-10-04' AS day,
        TIMESTAMPTZ '9999-12-31 23:59:59.999999+00' AS at_time, '\\xFF'::BLOB AS bytes, ['a', NULL] AS tags,
        {'inner': [1::BIGINT]} AS parts, MAP {'a': 1.5::DOUBLE} AS sizes, NULL::VARCHAR AS nothing FROM orders"""
    values = View("all_types", sql, "An order.", materialized=True)
    Materialization(settings, values, (values,)).update()
    schema = DeltaTable(settings.table_uri("all_types")).schema()
    types = {field.name: field.type.to_json() for field in schema.fields}
    assert types["price"] == '"decimal(18,2)"'
    assert [types[name] for name in ("number", "share", "is_new", "day", "at_time", "bytes")] == [
        '"integer"',
        '"double"',
        '"boolean"',
        '"date"',
        '"timestamp"',
        '"binary"',
    ]
    row = stored_rows(settings, "all_types")[0]
    assert row["at_time"].isoformat() == "9999-12-31T23:59:59.999999+00:00"
    assert (row["day"].isoformat(), row["bytes"]) == ("1582-10-04", b"\xff")
    assert (row["tags"], row["parts"], row["sizes"]) == (["a", None], {"inner": [1]}, [("a", 1.5)])
    assert row["nothing"] is None


NUMBERS = View("as_numbers", "SELECT id::INT AS number FROM numbers", "A number.", materialized=True)
NUMBER_TEXTS = pa.table({"id": [*map(str, range(400_000))]})
NO_NUMBER = pa.table({"id": ["x"]})


def test_a_row_that_cannot_be_computed_leaves_the_former_rows(settings: Settings) -> None:
    write_deltalake(settings.table_uri("numbers"), NUMBER_TEXTS.slice(0, 2))
    materialization = Materialization(settings, NUMBERS, (NUMBERS,))
    materialization.update()
    write_deltalake(settings.table_uri("numbers"), pa.concat_tables([NUMBER_TEXTS, NO_NUMBER]), mode="overwrite")
    with pytest.raises(TableError, match="View as_numbers cannot be computed: Could not convert string 'x' to INT32"):
        materialization.update()
    assert stored_rows(settings, "as_numbers") == [{"number": 0}, {"number": 1}]


def test_a_row_that_cannot_be_computed_the_first_time_leaves_no_table(settings: Settings) -> None:
    write_deltalake(settings.table_uri("numbers"), pa.concat_tables([NUMBER_TEXTS, NO_NUMBER]))
    count = View("count_of_numbers", "SELECT count(*) AS numbers FROM as_numbers", "One count.", materialized=True)
    views = (NUMBERS, count)
    with pytest.raises(TableError, match="View as_numbers cannot be computed: Could not convert string 'x' to INT32"):
        Materialization(settings, NUMBERS, views).update()
    with pytest.raises(QueryError, match="View as_numbers is materialized, but its rows are not stored yet"):
        query(settings, "FROM as_numbers", views=views)
    with pytest.raises(TableError, match="View count_of_numbers reads as_numbers, which does not exist yet"):
        Materialization(settings, count, views).update()
    names = {folder.name for folder in Path(settings.tables_root).iterdir()} - {".locks"}  # DuckDB may fail before it
    assert names == {"customers", "numbers", "orders"}
    DeltaTable(settings.table_uri("numbers")).delete("id = 'x'")
    assert Materialization(settings, NUMBERS, views).update().rows == len(NUMBER_TEXTS)


def test_a_first_update_that_died_is_done_again(settings: Settings) -> None:
    left_over = Path(settings.tables_root, ".spent.new")
    write_deltalake(left_over, pa.table({"city": ["Rome"]}))
    Path(settings.table_uri("spent"), "_delta_log").mkdir(parents=True)
    assert spent(settings).update() == ViewUpdate("spent", 0, {"customers": 0, "orders": 0}, 2)
    assert not left_over.exists()
    assert spent(settings).find_news() == ()


@pytest.mark.parametrize(("write", "version"), [(create_with_rows, 0), (replace_all, 1)])
def test_of_two_updates_at_once_one_is_planned_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, write: Any, version: int
) -> None:
    conflicts: list[ConflictError] = []
    if version:
        spent(settings).update()
        add_customers(settings, ("eve", "Oslo"))

    def write_second(*arguments: Any) -> Any:
        if not conflicts:
            monkeypatch.setattr(f"lakehouse.operations.materialize.{write.__name__}", write)
            spent(settings).update()
            with pytest.raises(ConflictError) as conflict:
                write(*arguments)
            conflicts.append(conflict.value)
            raise conflict.value
        raise AssertionError("The second plan finds the rows of the other writer")

    monkeypatch.setattr(f"lakehouse.operations.materialize.{write.__name__}", write_second)
    assert spent(settings).update() == ViewUpdate("spent", version, {"customers": version, "orders": 0}, None)


def test_old_files_go_with_the_tenth_commit(settings: Settings) -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    spent(settings).update()
    table = DeltaTable(settings.table_uri("spent"))
    table.alter.set_table_properties(properties, raise_if_not_exists=False)
    while table.version() < 10:
        add_orders(settings, ("5", "ann", "20.00"))
        spent(settings).update()
        table.update_incremental()
    assert len(list(Path(settings.table_uri("spent")).glob("*.parquet"))) == 1
    assert spent(settings).find_news() == ()
