"""Views in queries without a JVM: they are read by their names, and no other query notices one that is broken."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.declaration import View
from lakehouse.errors import QueryError
from lakehouse.operations.materialize import Materialization
from lakehouse.query import open_query, query
from lakehouse.settings import Settings
from lakehouse_tests.unit.views.orders import add_customers, add_orders

DEAR = View("dear", "SELECT id, customer FROM orders WHERE price > 10", "A dear order.")
CITIES = View(
    "cities",
    "SELECT city, count(*) AS number FROM dear JOIN customers ON customer = customers.id GROUP BY city",
    "A city.",
)
STORED = View("stored_dear", "SELECT id FROM dear", "A dear order.", materialized=True)
VIEWS = (DEAR, CITIES, STORED)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path, sync=False)
    add_orders(settings, ("1", "ann", "5.00"), ("2", "ann", "15.00"), ("3", "bob", "25.00"))
    return settings


def test_a_view_is_read_by_its_name_and_shows_the_newest_rows(settings: Settings) -> None:
    assert query(settings, "SELECT id FROM dear ORDER BY id", views=VIEWS).rows == [("2",), ("3",)]
    add_orders(settings, ("4", "bob", "35.00"))
    assert query(settings, "SELECT count(*) FROM dear", views=VIEWS).rows == [(3,)]


def test_a_view_reads_other_views_and_tables(settings: Settings) -> None:
    add_customers(settings, ("ann", "Oslo"), ("bob", "Bern"))
    rows = query(settings, "SELECT * FROM cities ORDER BY city", views=VIEWS).rows
    assert rows == [("Bern", 1), ("Oslo", 1)]


def test_an_error_of_a_view_names_the_line_and_the_quotes(settings: Settings) -> None:
    views = (*VIEWS, View("odd", "SELECT id,\n at FROM orders", "A word of SQL as a column.", materialized=False))
    with pytest.raises(QueryError) as raised:
        query(settings, "FROM odd", views=views)
    assert raised.value.what.endswith('syntax error at or near "FROM", in line 2 of sql=')
    assert raised.value.action.endswith('A column whose name is a word of SQL needs quotes, such as "at".')


def test_a_view_without_its_tables_is_an_error_only_for_queries_that_need_it(settings: Settings) -> None:
    assert query(settings, "SELECT count(*) FROM orders", views=VIEWS).rows == [(3,)]
    message = "View cities cannot be read: Table with name customers does not exist.*run lakehouse merge or"
    with pytest.raises(QueryError, match=message):
        query(settings, "FROM cities", views=VIEWS)


@pytest.mark.parametrize("sql", ["FROM dear", "FROM DEAR", "FROM Orders"])
def test_a_table_that_cannot_be_read_is_named_if_a_query_or_a_view_of_it_needs_it(settings: Settings, sql: str) -> None:
    add_customers(settings, ("ann", "Oslo"))
    write_deltalake(settings.table_uri("orders_archive"), pa.table({"id": ["1"]}))
    Path(settings.table_uri("orders"), "_delta_log", f"{0:020}.json").write_text("{")
    with pytest.raises(QueryError, match="Table orders cannot be read"):
        query(settings, sql, views=VIEWS)
    assert query(settings, "SELECT city FROM customers", views=VIEWS).rows == [("Oslo",)]
    assert query(settings, "FROM orders_archive", views=VIEWS).rows == [("1",)]


def test_the_tables_of_an_error_contain_the_views_that_can_be_read(settings: Settings) -> None:
    with pytest.raises(QueryError, match=r"Tables: dear, orders\."):
        query(settings, "FROM nothing", views=VIEWS)


def test_a_materialized_view_is_read_as_it_was_stored(settings: Settings) -> None:
    with pytest.raises(QueryError, match="its rows are not stored yet. Store its rows first: lakehouse materialize"):
        query(settings, "FROM stored_dear", views=VIEWS)
    Materialization(settings, STORED, VIEWS).update()
    add_orders(settings, ("4", "bob", "35.00"))
    assert query(settings, "SELECT count(*) FROM stored_dear", views=VIEWS).rows == [(2,)]


def test_a_view_takes_precedence_over_a_table_that_it_replaced(settings: Settings) -> None:
    Materialization(settings, STORED, VIEWS).update()
    plain_view = View(STORED.name, "SELECT 'new' AS id", "A text.")
    assert query(settings, "FROM stored_dear", views=(plain_view,)).rows == [("new",)]


def test_a_view_is_read_as_of_a_version_of_its_table(settings: Settings) -> None:
    add_orders(settings, ("4", "bob", "35.00"))
    with open_query(settings, "SELECT count(*) FROM dear", as_of=0, views=VIEWS) as running_query:
        assert running_query.fetch() == [(2,)]
        assert [(version.table, version.number) for version in running_query.versions] == [("orders", 0)]
