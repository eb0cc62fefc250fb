"""The columns of views: their types, and the columns of tables that they are computed from."""

from lakehouse.declaration import View
from lakehouse.operations.materialize import type_views
from lakehouse_tests.unit.views.orders import CUSTOMERS, ORDERS


def test_views_come_after_those_that_they_read() -> None:
    views = [
        View("a", "SELECT x FROM b", "A."),
        View("b", "SELECT x FROM c", "B."),
        View("c", "SELECT id AS x FROM orders", "C."),
    ]
    assert [typed.view.name for typed in type_views([ORDERS], views)] == ["c", "b", "a"]


def test_columns_have_the_types_of_duckdb_and_origins_through_joins_and_subqueries() -> None:
    sql = """
        WITH spent AS (SELECT customer, sum(price) AS total, count(*) AS number FROM orders GROUP BY customer)
        SELECT city, upper(city) AS city_text, sum(spent.total / number) AS mean, max(rolled.orders) AS most,
            count(*) AS n
        FROM spent JOIN customers ON customer = customers.id JOIN orders_by_customer AS rolled USING (customer)
        WHERE customers.id <> 'x' GROUP BY ALL
    """
    (typed_view,) = type_views([ORDERS, CUSTOMERS], [View("spending", sql, "A city.")])
    assert typed_view.types == {
        "city": "VARCHAR",
        "city_text": "VARCHAR",
        "mean": "DOUBLE",
        "most": "BIGINT",
        "n": "BIGINT",
    }
    assert typed_view.origins == {
        "city": [("customers", "city")],
        "city_text": [("customers", "city")],
        "mean": [("orders", "price")],
        "most": [("orders_by_customer", "orders")],
        "n": [],
    }


def test_a_star_is_every_declared_column_with_its_type() -> None:
    (typed_view,) = type_views([ORDERS], [View("all_orders", "SELECT * FROM orders", "An order.")])
    assert list(typed_view.types) == [*(column.name for column in ORDERS.columns), "_record"]
    assert typed_view.types["ordered_at"] == "TIMESTAMP WITH TIME ZONE"
    assert typed_view.types["tags"] == "VARCHAR[]"
    assert typed_view.origins["tags"] == [("orders", "tags")]


def test_the_origin_of_a_column_is_in_the_view_that_is_read() -> None:
    views = [
        View("cheap", "SELECT id AS nr FROM orders", "An order."),
        View("few", "SELECT nr FROM cheap", "A number."),
    ]
    typed_views = {typed.view.name: typed for typed in type_views([ORDERS], views)}
    assert typed_views["few"].origins == {"nr": [("cheap", "nr")]}


def test_a_change_feed_and_rejected_records_can_be_read() -> None:
    sql = "SELECT id, price_after - price_before AS more FROM orders_changes"
    rejected_sql = "SELECT reason, count(*) AS number FROM orders_rejected GROUP BY reason"
    views = type_views([ORDERS], [View("raised", sql, "A change."), View("reasons", rejected_sql, "A reason.")])
    assert views[0].origins["more"] == [("orders_changes", "price_after"), ("orders_changes", "price_before")]
    assert views[1].types == {"reason": "VARCHAR", "number": "BIGINT"}
