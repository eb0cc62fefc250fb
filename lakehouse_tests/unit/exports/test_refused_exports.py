"""What is wrong with an export is reported when it is declared, or when its tables are known: what, and what to do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Column, Day, Export, Hour, Month, Time, Value, View
from lakehouse.declaration.table import require_distinct_names
from lakehouse.discovery import sort_outlets
from lakehouse.errors import DeclarationError
from lakehouse_tests.unit.views.orders import CUSTOMERS, ORDERS

STORED = View("stored", "SELECT id FROM orders", "An order.", materialized=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "Daily"}, "the name is not allowed"),
        ({"of": "my table"}, "of='my table' is not the name of a table. Write the name of a declared table."),
        ({"format": "xml"}, "format must be parquet, csv or jsonl, not 'xml'. Declare parquet, csv or jsonl."),
        (
            {"folder": "s3://bucket/x"},
            "folder is a URI, but a manifest is published safely only on a local disk. Name a folder on this machine,"
            " and copy it from there.",
        ),
        ({"folder": "a\nb"}, "the name of the folder has a control character. Choose another folder."),
        (
            {"by": Value("id")},
            "by must be an Hour, a Day, a Month or a Year, not Value(column='id').",
        ),
        ({"columns": "id"}, "columns must be a list or tuple, not 'id'."),
        ({"columns": [1]}, "columns: each item must be a string, not 1."),
        ({"changes": "no"}, "changes must be True or False, not 'no'."),
        ({"folder": Path("x")}, "folder must be a string, not PosixPath('x')."),
        ({"of": None}, "of must be a string, not None."),
        ({"by": Day("../x")}, "folders cannot be named by the column ../x: it has a slash. Choose another column."),
        ({"by": Day(5)}, "by: column must be a string, not 5."),  # type: ignore[arg-type]
        (
            {"folder": "~nobody-of-this-name/x"},
            "the home folder of ~nobody-of-this-name/x is not known. Name a user of this machine, or an absolute path.",
        ),
        ({"columns": ["id", "id"]}, "id is listed twice in columns. List it once."),
    ],
)
def test_a_wrong_export_is_refused_when_it_is_declared(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Export(**{"name": "daily", "of": "orders", **options})
    assert str(error.value).startswith(f"Export {options.get('name', 'daily')!r}: {message}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "oders"}, "unknown table oders. Did you mean orders? It can be of stored, orders, orders_base,"),
        (
            {"of": "orders_by_customer", "changes": True},
            "the changes of orders_by_customer are not kept: only a merged table and a change feed have them."
            " Remove changes=True: each run then writes all rows, if there is news.",
        ),
        (
            {"columns": ["id", "prize"]},
            "unknown column prize. Did you mean price? The columns of orders are id, customer",
        ),
        ({"by": Day("at")}, "unknown column at. The columns of orders are"),
        (
            {"columns": ["price"], "changes": True},
            "columns has no id of the key, so no change could be applied. Add it to columns.",
        ),
        (
            {"by": Month("price")},
            "by=Month needs a column of type TIMESTAMP or DATE. price is DECIMAL(18,2). Choose another column.",
        ),
    ],
)
def test_an_export_that_does_not_fit_to_its_table_is_refused(options: dict[str, Any], message: str) -> None:
    export = Export(**{"name": "daily", "of": "orders", **options})
    with pytest.raises(DeclarationError) as error:
        sort_outlets([export], [ORDERS, CUSTOMERS], [STORED])
    assert str(error.value).startswith(f"Export 'daily': {message}")


@pytest.mark.parametrize("folder", ["x", "x//", "./x", "y/../x"])
def test_two_exports_with_one_folder_are_refused(folder: str) -> None:
    exports = [Export("daily", of="orders", folder="x/"), Export("hourly", of="orders", folder=folder)]
    with pytest.raises(DeclarationError, match=r"Export 'daily': the export hourly has the same folder"):
        sort_outlets(exports, [ORDERS], [])


@pytest.mark.parametrize("folder", ["x/hours", "x/_export", "x/ordered_day=2026-01-01"])
def test_an_export_in_the_folder_of_another_one_is_refused(folder: str) -> None:
    exports = [Export("daily", of="orders", folder="x"), Export("hourly", of="orders", folder=folder)]
    with pytest.raises(DeclarationError, match=r"Export 'hourly': the export daily has a folder that contains this"):
        sort_outlets(exports, [ORDERS], [])


@pytest.mark.parametrize("by", [Hour("ordered_at"), Day("ordered_at")])
def test_folders_have_the_name_of_a_column_only_if_it_has_their_values(by: Hour | Day) -> None:
    table = replace(ORDERS, columns=[*ORDERS.columns, Column(by.name, "INT", doc="Number of the hour or day.")])
    export = Export("daily", of="orders", by=by)
    with pytest.raises(DeclarationError, match=f"the folders would be named {by.name}, as a column of orders"):
        sort_outlets([export], [table], [])
    assert sort_outlets([export], [ORDERS], []) == (export,)


def test_folders_may_have_the_name_of_the_partition_that_they_repeat() -> None:
    table = replace(ORDERS, partition_by=Day("ordered_at"))
    assert sort_outlets([Export("daily", of="orders", by=Day("ordered_at"))], [table], [])
    other_column = Column("ordered", "TIMESTAMP", doc="Another time.", written=Time("iso8601"))
    table = replace(ORDERS, columns=[*ORDERS.columns, other_column], partition_by=Day("ordered"))
    with pytest.raises(DeclarationError, match="the folders would be named ordered_day, as a column of orders"):
        sort_outlets([Export("daily", of="orders", by=Day("ordered_at"))], [table], [])


def test_every_kind_of_table_can_be_exported() -> None:
    names = ["orders", "orders_changes", "orders_by_customer", "orders_rejected", "orders_base", "stored"]
    exports = [Export(f"of_{name}", of=name) for name in names]
    exports += [Export(f"changed_{name}", of=name, changes=True) for name in names[:2]]
    assert len(sort_outlets(exports, [ORDERS], [STORED])) == len(names) + 2


def test_a_name_that_is_used_twice_is_refused() -> None:
    with pytest.raises(DeclarationError, match="another declaration|also uses the name orders_sensor"):
        require_distinct_names(ORDERS, Export("orders", of="orders"))
    with pytest.raises(DeclarationError, match=r"Export 'stored': another declaration also uses the name stored"):
        require_distinct_names(STORED, Export("stored", of="orders"))
