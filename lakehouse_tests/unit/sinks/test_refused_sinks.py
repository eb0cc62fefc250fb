"""What is wrong with a sink is reported when it is declared, or when its tables are known: what, and what to do."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import ChangesTopic, DataExplorerTable, PostgresTable, Sink, View
from lakehouse.discovery import sort_outlets
from lakehouse.errors import DeclarationError
from lakehouse_tests.unit.views.orders import ORDERS

SINK = Sink("sink", of="orders", to=PostgresTable("orders"))
LOG = replace(ORDERS, name="events", topic="events", key=[], rollups=[])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "Sink"}, "the name is not allowed"),
        ({"of": "my table"}, "of='my table' is not the name of a table. Write the name of a declared table."),
        (
            {"to": "orders"},
            "to must be a PostgresTable, a SqlServerTable, a ChangesTopic or a DataExplorerTable, not 'orders'.",
        ),
        ({"to": ChangesTopic("a b")}, "'a b' is not the name of a topic. Use letters, digits, dots, _ and -, at most"),
        (
            {"to": ChangesTopic("a"), "unfit": "leave_out"},
            "a topic holds every value, so no row is unfit. Remove unfit=",
        ),
        (
            {"to": DataExplorerTable("orders"), "unfit": "leave_out"},
            "a sink to Data Explorer leaves no row out. Remove unfit=",
        ),
        ({"to": DataExplorerTable("a.b")}, "'a.b' cannot be the name of the table. Use letters, digits, _ and -, at"),
        ({"to": DataExplorerTable("lakehouse_progress")}, "'lakehouse_progress' cannot be the name of the table."),
        ({"to": DataExplorerTable("a_lakehouse_1")}, "'a_lakehouse_1' cannot be the name of the table."),
        (
            {"to": DataExplorerTable("orders"), "columns": ["id", "it's"]},
            "Data Explorer refuses the column it's. Use letters, digits, space, dot, _ and -.",
        ),
        ({"to": ChangesTopic("..")}, "'..' is not the name of a topic."),
        ({"to": ChangesTopic("a", partitions=0)}, "a has 0 partitions. Declare one or more."),
        ({"columns": ["id", "id"]}, "id is listed twice in columns. List it once."),
        ({"columns": ["id", "_gone"]}, "_gone is a column of lakehouse. Remove it from columns"),
        (
            {"to": PostgresTable('a"b')},
            "'a\"b' is not the name of a table. Write TABLE or SCHEMA.TABLE, without quotes.",
        ),
        ({"to": PostgresTable("a.b.c")}, "'a.b.c' is not the name of a table. Write TABLE or SCHEMA.TABLE"),
        ({"to": PostgresTable("")}, "'' is not the name of a table."),
        (
            {"to": PostgresTable("shop.lakehouse_progress")},
            "sinks have a table shop.lakehouse_progress of their own.",
        ),
        (
            {"to": PostgresTable("t" * 64)},
            f"PostgreSQL cannot hold the name {'t' * 64}, which is longer than 63 bytes. Choose a shorter",
        ),
        ({"columns": ["id", "ä" * 32]}, f"PostgreSQL cannot hold the name {'ä' * 32}, which is longer than 63 bytes."),
    ],
)
def test_a_wrong_sink_is_refused_when_it_is_declared(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Sink(**{"name": "sink", "of": "orders", "to": PostgresTable("orders"), **options})
    assert str(error.value).startswith(f"Sink {options.get('name', 'sink')!r}: {message}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "oders"}, "unknown table oders. Did you mean orders?"),
        (
            {"of": "orders_rejected"},
            "the rows of orders_rejected have nothing that identifies them. A sink can be of a merged table, a log"
            " table, a change feed or a rollup.",
        ),
        ({"of": "stored"}, "the rows of stored have nothing that identifies them."),
        ({"columns": ["id", "prize"]}, "unknown column prize. Did you mean price? The columns of orders are id"),
        ({"columns": ["price"]}, "columns has no id, which identifies a row. Add it to columns."),
    ],
)
def test_a_sink_that_does_not_fit_to_its_table_is_refused(options: dict[str, Any], message: str) -> None:
    view = View("stored", "SELECT id FROM orders", "An order.", materialized=True)
    with pytest.raises(DeclarationError) as error:
        sort_outlets([replace(SINK, **options)], [ORDERS], [view])
    assert str(error.value).startswith(f"Sink 'sink': {message}")


def test_two_sinks_of_one_target_are_refused() -> None:
    rival = replace(SINK, name="rival", to=PostgresTable("public.orders"))
    with pytest.raises(DeclarationError, match=r"Sink 'rival': the sink sink writes to the same table public\.orders"):
        sort_outlets([SINK, rival], [ORDERS], [])
    elsewhere = replace(rival, to=PostgresTable("public.orders", database="warehouse"))
    assert sort_outlets([SINK, elsewhere], [ORDERS], []) == (elsewhere, SINK)


def test_sinks_follow_every_table_whose_rows_have_an_identity() -> None:
    names = ["orders", "orders_changes", "orders_by_customer", "events"]
    sinks = [replace(SINK, name=f"of_{name}", of=name, to=PostgresTable(name)) for name in names]
    assert len(sort_outlets(sinks, [ORDERS, LOG], [])) == len(names)
