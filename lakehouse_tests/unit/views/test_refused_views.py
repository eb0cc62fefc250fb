"""The columns of views, and what is wrong with a view: what, and what to do."""

import pytest

from lakehouse.declaration import StreamTable, View
from lakehouse.declaration.table import require_distinct_names
from lakehouse.declaration.view import sort_views
from lakehouse.errors import DeclarationError
from lakehouse.operations.materialize import type_views
from lakehouse_tests.unit.views.orders import CUSTOMERS, ORDERS

SAME = " Remove it. The result must be the same each time."
ORDER = "Add ORDER BY, with columns that no two rows share."
ONE_SELECT = "sql is not one query that reads. Write one SELECT in DuckDB's SQL."


def view(sql: str, name: str = "report", *, materialized: bool = False) -> View:
    return View(name, sql, "A report.", materialized=materialized)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", ONE_SELECT),
        ("id > 3", ONE_SELECT),
        ("DELETE FROM orders", ONE_SELECT),
        ("SELECT 1 AS x; SELECT 2 AS x", ONE_SELECT),
        ("COPY orders TO 'x.csv'", ONE_SELECT),
        ("SELECT row_number() OVER v AS x FROM orders WINDOW v AS (w), w AS (v)", ONE_SELECT),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, ONE_SELECT),
        (
            "SELECT * FROM read_parquet('x')",
            "READ_PARQUET('x') is not a declared table. Read declared tables and views, by their names alone.",
        ),
        (
            "SELECT * FROM other.orders",
            "other.orders is not a declared table. Read declared tables and views, by their names alone.",
        ),
        (
            "SELECT id\nFROM orders\nWHERE order ORDER BY",
            "sql is not one query that reads: line 3, at 'ORDER BY'. Write one SELECT in DuckDB's SQL. A column whose"
            ' name is a word of SQL needs quotes, such as "at".',
        ),
        ("SELECT $1 AS x FROM orders", "sql has a parameter without a value. Write the value."),
        ("SELECT random() AS x FROM orders", "sql depends on chance, or on who computes it: random()." + SAME),
        ("SELECT uuidv7() AS x FROM orders", "sql depends on chance: uuidv7()." + SAME),
        ("SELECT now() AS x FROM orders", "sql depends on the clock: now()." + SAME),
        ("SELECT id FROM orders WHERE ordered_at < current_date", "sql depends on the clock: current_date()." + SAME),
        ("SELECT today() AS x FROM orders", "sql depends on the clock: current_date()." + SAME),
        (
            "SELECT age(ordered_at) AS x FROM orders",
            "sql depends on the clock: age(). Subtract two times: with one argument, it reads the clock.",
        ),
        ("SELECT any_value(id) AS x FROM orders", "sql depends on the order of rows: any_value()." + SAME),
        (
            "SELECT max_by(id, price) AS x FROM orders",
            "sql depends on the order of rows: max_by(). It picks any of equal rows."
            " Write max({'by': by, 'value': value}).value.",
        ),
        (
            "SELECT list(id) AS x FROM orders",
            "sql depends on the order of rows: array_agg(). Add ORDER BY to its argument, with columns that no two rows"
            " share.",
        ),
        ("SELECT * FROM orders USING SAMPLE 10", "sql depends on chance: a sample." + SAME),
        (
            "SELECT * FROM (SELECT * FROM orders LIMIT 3)",
            "sql depends on the order of rows: LIMIT without ORDER BY. " + ORDER,
        ),
        (
            "SELECT row_number() OVER (PARTITION BY id) AS x FROM orders",
            "sql depends on the order of rows: ROW_NUMBER() OVER (PARTITION BY id). Add ORDER BY to its OVER.",
        ),
        (
            "SELECT row_number() OVER w AS x FROM orders WINDOW w AS (PARTITION BY id)",
            "sql depends on the order of rows: ROW_NUMBER() OVER w. Add ORDER BY to its OVER.",
        ),
        (
            "SELECT sum(price) OVER (ROWS 1 PRECEDING) AS x FROM orders",
            "sql depends on the order of rows: SUM(price) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)."
            " Add ORDER BY to its OVER.",
        ),
        (
            "SELECT DISTINCT ON (customer) customer, id FROM orders ORDER BY customer",
            "sql depends on the order of rows: DISTINCT ON without an ORDER BY of other columns. " + ORDER,
        ),
        (
            "SELECT orders.id FROM orders POSITIONAL JOIN customers",
            "sql depends on the order of rows: POSITIONAL JOIN. " + ORDER,
        ),
        (
            "SELECT ARRAY(SELECT id FROM orders) AS x",
            "sql depends on the order of rows: ARRAY(SELECT ...) without ORDER BY. " + ORDER,
        ),
        (
            "SELECT json_group_array(id) AS x FROM orders",
            "sql depends on the order of rows: json_group_array(). Write to_json(list(... ORDER BY ...)).",
        ),
        ("SELECT version() AS x FROM orders", "sql depends on the state of DuckDB: current_version()." + SAME),
        ("SELECT txid_current() AS x FROM orders", "sql depends on the state of DuckDB: txid_current()." + SAME),
        ("SELECT current_localtime() AS x FROM orders", "sql depends on the clock: current_localtime()." + SAME),
        (
            "SELECT * FROM orders, LATERAL read_text('x')",
            "READ_TEXT('x') is not a declared table. Read declared tables and views.",
        ),
        ("SELECT * FROM (SUMMARIZE orders)", "SUMMARIZE orders is not supported in a view. Write a SELECT."),
    ],
)
def test_a_query_that_its_text_shows_to_be_wrong_is_refused(sql: str, message: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        view(sql)
    assert str(refusal.value) == f"View 'report': {message}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(id ORDER BY id) AS ids FROM orders",
        "SELECT list_sort(list(id)) AS ids FROM orders",
        "SELECT id FROM orders ORDER BY id LIMIT 3",
        "SELECT id, row_number() OVER (ORDER BY id) AS number FROM orders",
        "SELECT id, 'now() LIMIT 1' AS text FROM orders",
        "SELECT row_number() OVER w AS number FROM orders WINDOW w AS (PARTITION BY id ORDER BY price)",
        "SELECT lag(id) OVER (W PARTITION BY price) AS former FROM orders WINDOW w AS (ORDER BY id)",
        "SELECT max(id) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS id FROM orders",
        "SELECT DISTINCT ON (customer) customer, id FROM orders ORDER BY customer, id",
        "SELECT DISTINCT customer FROM orders",
        "SELECT ARRAY(SELECT id FROM orders ORDER BY id) AS ids",
        "SELECT id, tag FROM orders, LATERAL unnest(tags) AS u(tag)",
        "SELECT id, tag FROM orders, LATERAL (SELECT unnest(tags) AS tag) AS u",
        "SELECT version, current_query FROM (SELECT id AS version, id AS current_query FROM orders)",
    ],
)
def test_a_query_that_returns_the_same_each_time_is_accepted(sql: str) -> None:
    assert view(sql).reads == ("orders",)


@pytest.mark.parametrize(
    ("name", "doc", "message"),
    [
        ("No-Name", "x", "the name is not allowed: a name has at most 200 lower-case letters"),
        ("config", "x", "the name is reserved by Dagster"),
        ("duckdb_views", "x", "the name is reserved: DuckDB lists tables"),
        ("report", " ", "doc is empty. Say what one row is."),
    ],
)
def test_a_view_needs_a_free_name_and_a_doc(name: str, doc: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        View(name, "SELECT 1 AS x", doc)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT * FROM orderz",
            "unknown table orderz. Did you mean orders? It can read customers, customers_changes, ",
        ),
        ("SELECT ids FROM customers", "unknown column ids. Did you mean id? The columns of customers are id, city, "),
        ("SELECT c.town FROM customers AS c", "unknown column town. The columns of customers are id, city, "),
        ("SELECT lenght(id) AS x FROM orders", "sql cannot be run: Scalar Function with name lenght does not exist."),
        ("SELECT count(*) FROM orders", "column 'count_star()' has no name of its own. Name it with AS: lower-case"),
        ("SELECT id AS Id FROM orders", "column 'Id' has no name of its own. Name it with AS: lower-case"),
        ("SELECT id, price AS id FROM orders", "two columns have the name id. Name each of them with AS."),
    ],
)
def test_a_query_that_does_not_fit_its_tables_is_refused(sql: str, message: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        type_views([ORDERS, CUSTOMERS], [view(sql)])
    assert str(refusal.value).startswith(f"View 'report': {message}")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT sum(pieces) AS pieces FROM orders",
            "column pieces: Delta has no type for HUGEINT. Cast it: CAST(... AS BIGINT), or AS DECIMAL(38,0).",
        ),
        (
            "SELECT ordered_at AT TIME ZONE 'Asia/Tokyo' AS local FROM orders",
            "column local: Delta has no type for TIMESTAMP. Say its zone: ... AT TIME ZONE 'UTC'.",
        ),
        (
            "SELECT [ordered_at - ordered_at] AS ages FROM orders",
            "column ages: Delta has no type for INTERVAL. Cast it, for example AS VARCHAR.",
        ),
    ],
)
def test_a_materialized_view_has_only_types_of_delta(sql: str, message: str) -> None:
    assert len(type_views([ORDERS], [view(sql)])) == 1
    with pytest.raises(DeclarationError) as refusal:
        type_views([ORDERS], [view(sql, materialized=True)])
    assert str(refusal.value) == f"View 'report': {message}"


def test_views_that_read_one_another_in_a_circle_are_refused() -> None:
    views = [view("SELECT 1 AS x", "a"), view("SELECT x FROM d", "b"), view("SELECT x FROM b", "c")]
    views.append(view("SELECT x FROM c JOIN a USING (x)", "d"))
    with pytest.raises(DeclarationError) as refusal:
        sort_views(views, [])
    message = "View 'b': it reads itself: b reads d reads c reads b. Remove one of these references."
    assert str(refusal.value) == message


def test_a_view_that_reads_its_own_name_is_refused() -> None:
    with pytest.raises(DeclarationError, match="View 'orders': it reads itself: orders reads orders"):
        sort_views([view("SELECT * FROM orders", "orders")], [])


def test_a_view_with_the_name_of_a_declaration_is_refused() -> None:
    with pytest.raises(DeclarationError, match="View 'orders': another declaration also uses the name orders"):
        require_distinct_names(ORDERS, view("SELECT 1 AS x", "orders"))


@pytest.mark.parametrize("name", ["orders_rejected", "orders_changes", "orders_by_customer", "orders_sensor"])
def test_a_view_with_a_name_of_a_table_is_refused(name: str) -> None:
    declarations: list[StreamTable | View] = [ORDERS, view("SELECT 1 AS x", name)]
    with pytest.raises(DeclarationError, match=f"View '{name}': the declaration of 'orders' also uses the name {name}"):
        require_distinct_names(*declarations)


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
