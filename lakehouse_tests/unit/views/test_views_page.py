"""The page about views: its declarations are accepted, and do what the page says."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.declaration import View
from lakehouse.defs.followers import TICK_INTERVAL
from lakehouse.errors import DeclarationError
from lakehouse.operations.materialize import Materialization, type_views
from lakehouse.query import query
from lakehouse.settings import Settings
from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.unit.views.orders import ORDERS, add_customers, add_orders

PAGE = (ROOT / "docs" / "how-to" / "views.md").read_text(encoding="utf-8")
REFUSED = ["random()", "uuid()", "now()", "current_date", "any_value(id)", "first(id)", "max_by(id, price)", "mode(id)"]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    names: dict[str, Any] = {}
    run_examples("views.md", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), names)
    return names


def test_the_views_of_the_page_return_what_their_docs_say(names: dict[str, Any], tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, sync=False)
    views = [
        typed.view
        for typed in type_views(
            [names["customers"], names["orders"], names["renames"]],
            [part for part in names.values() if isinstance(part, View)],
        )
    ]
    add_orders(settings, ("1", "ann", "5.00"), ("2", "bob", "15.00"), ("3", "ann", "20.00"))
    add_customers(settings, ("ann", "Oslo"))
    (statement,) = re.findall(r"lakehouse query '(.*?)'", PAGE)
    assert query(settings, statement, views=views).rows == [
        ("1", Decimal("5.00"), "Oslo"),
        ("2", Decimal("15.00"), None),
        ("3", Decimal("20.00"), "Oslo"),
    ]
    add_customers(settings, ("eve", "  New 	 York "))
    write_deltalake(settings.table_uri("renames"), pa.table({"former": ["bob"], "present": ["rob"]}))
    assert query(settings, "FROM clean_customers ORDER BY id", views=views).rows == [
        ("ann", "Oslo"),
        ("eve", "New York"),
    ]
    rows = query(settings, "SELECT id, customer FROM orders_of_customers ORDER BY id", views=views).rows
    assert rows == [("1", "ann"), ("2", "rob"), ("3", "ann")]
    update = Materialization(settings, names["sales_by_city"], views).update()
    assert update.versions == {"customers": 1, "orders": 0}
    rows = query(settings, "FROM sales_by_city ORDER BY city", views=views).rows
    assert rows == [("Oslo", 2, Decimal("25.00")), (None, 1, Decimal("15.00"))]


@pytest.mark.parametrize("expression", REFUSED)
def test_what_the_page_calls_refused_is_refused(expression: str) -> None:
    assert re.match(r"\w+", expression)[0] in PAGE  # type: ignore[index]
    with pytest.raises(DeclarationError, match="depends on"):
        View("report", f"SELECT {expression} AS x FROM orders", "A report.")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT max({'by': price, 'value': id}).value AS x FROM orders",
        "SELECT list(id ORDER BY id) AS x FROM orders",
        "SELECT id FROM orders ORDER BY id LIMIT 10",
        "SELECT CAST(sum(pieces) AS BIGINT) AS x FROM orders",
        "SELECT date_diff('second', ordered_at, ordered_at) AS x FROM orders",
    ],
)
def test_what_the_page_says_to_write_is_accepted(sql: str) -> None:
    (typed_view,) = type_views([ORDERS], [View("report", sql, "A report.", materialized=True)])
    assert len(typed_view.types) == 1


def test_the_page_says_how_often_the_sensor_looks() -> None:
    assert f"About every {TICK_INTERVAL} seconds" in PAGE
