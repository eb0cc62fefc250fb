"""What a sink brings to Azure Data Explorer: every change once, against a double of the service."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.defs.build import build_defs
from lakehouse.errors import TableError
from lakehouse.sinks import data_explorer
from lakehouse.sinks.progress import sink_status
from lakehouse_tests.helpers.tables.change_rows import SALES, ExplorerTarget, change_sales
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge
from lakehouse_tests.unit.exports.test_exports_in_dagster import SALES as TABLE


def test_the_first_run_writes_every_row_and_a_second_one_nothing(explorer: ExplorerTarget) -> None:
    assert explorer.delivery.find_news() == "nothing was written yet"
    update = explorer.update()
    assert (update.kind, update.rows, update.deleted, update.source_version, update.lag) == ("whole", 3, 0, 0, 0)
    explorer.require_every_change_once()
    before = deepcopy(explorer.service.tables)
    assert explorer.update().kind is None and explorer.delivery.find_news() is None
    assert explorer.service.tables == before
    assert explorer.rows[0] == {
        "id": "a",
        "price": 1.0,
        "sold_at": "2026-01-01T12:00:00Z",
        "_key": '{"id":"a"}',
        "_digest": "ae4e4afb1b58b171bc4937191e99c2bd",
        "_version": 0,
        "_is_deleted": False,
        "_nulls": 0,
    }


def test_each_version_of_a_row_is_a_row_of_the_target(explorer: ExplorerTarget) -> None:
    explorer.update()
    change_sales(explorer)
    assert explorer.delivery.find_news() == "rows of sales may have changed"
    update = explorer.update()
    assert (update.kind, update.rows, update.deleted, update.source_version) == ("changes", 3, 2, 4)
    explorer.require_every_change_once()
    DeltaTable(explorer.settings.table_uri("sales")).optimize.compact()
    assert explorer.update().kind is None


def test_a_version_without_changes_of_the_columns_moves_the_progress(explorer: ExplorerTarget) -> None:
    sink = replace(explorer, sink=replace(explorer.sink, columns=["id"]))
    sink.update()
    merge(explorer.settings, ("a", 7.0, None))
    update = sink.update()
    assert (update.kind, update.rows, update.source_version) == ("changes", 0, 1)
    assert sink.delivery.find_news() is None


def test_a_restored_table_is_loaded_as_a_whole(explorer: ExplorerTarget) -> None:
    explorer.update()
    change_sales(explorer)
    explorer.update()
    DeltaTable(explorer.settings.table_uri("sales")).restore(1)
    assert explorer.update().kind == "whole"
    explorer.require_every_change_once(5)


def test_a_table_that_is_created_again_is_loaded_as_a_whole(explorer: ExplorerTarget) -> None:
    explorer.update()
    folder = Path(explorer.settings.table_uri("sales"))
    folder.rename(folder.with_name("former"))
    append(explorer.settings, ("a", 1.0, day(1)), ("z", 2.0, day(2)))
    assert "created again" in (explorer.delivery.find_news() or "")
    assert explorer.update().kind == "whole"
    explorer.require_every_change_once()


@pytest.mark.parametrize("is_sending", [False, True])
def test_changes_that_vacuum_removed_are_replaced_by_all_rows(explorer: ExplorerTarget, *, is_sending: bool) -> None:
    explorer.update()
    change_sales(explorer)
    if is_sending:
        explorer.service.ingests = False
        with pytest.raises(TableError, match="not ingested"):
            explorer.update()
        explorer.service.ingests = True
    table = DeltaTable(explorer.settings.table_uri("sales"))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    for file in Path(explorer.settings.table_uri("sales"), "_change_data").iterdir():
        file.unlink()
    assert explorer.update().kind == "whole"
    explorer.require_current_rows()


def test_other_columns_are_loaded_as_a_whole_into_a_table_that_has_them(explorer: ExplorerTarget) -> None:
    replace(explorer, sink=replace(explorer.sink, columns=["id", "price"])).update()
    assert explorer.delivery.find_news() == "its columns changed"
    assert explorer.update().kind == "whole"
    explorer.require_every_change_once()
    rows = pa.table({"id": ["n"], "note": ["new"]})
    write_deltalake(explorer.settings.table_uri("sales"), rows, mode="append", schema_mode="merge")
    assert explorer.delivery.equals_table().passed
    assert explorer.update().kind == "whole"
    assert {row["note"] for row in explorer.rows} == {None, "new"}


def test_erased_rows_are_in_no_extent(explorer: ExplorerTarget) -> None:
    assert explorer.delivery.replace_versions() is None
    explorer.update()
    delete(explorer.settings, "id = 'b'")
    update = explorer.delivery.replace_versions()
    assert update and update.kind == "whole"
    assert '"b"' not in str(explorer.service.tables)
    explorer.require_every_change_once(1)


def test_a_table_that_no_sink_created_or_another_one_is_refused(explorer: ExplorerTarget) -> None:
    explorer.update()
    rival = replace(explorer, sink=replace(explorer.sink, name="rival"))
    with pytest.raises(TableError, match="Sink rival: table sales in data_explorer is written by the sink sales_in"):
        rival.update()
    explorer.service.tables["sales"].doc = "Sales of our shop."
    with pytest.raises(TableError, match="table sales in data_explorer exists already, and no sink created it"):
        explorer.update()


def test_a_table_that_somebody_dropped_is_loaded_again(explorer: ExplorerTarget) -> None:
    explorer.update()
    merge(explorer.settings, ("a", 5.0, None))
    del explorer.service.tables["sales"]
    assert explorer.update().kind == "whole"
    explorer.require_every_change_once(1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"price": float("nan")}, 'price of the row {"id":"x"} is NaN, which Data Explorer cannot hold'),
        ({"note": "ü" * (1 << 19) + "!"}, 'note of the row {"id":"x"} has more than 1 MB'),
    ],
)
def test_a_row_that_the_service_cannot_hold_is_named_before_anything_is_written(
    explorer: ExplorerTarget, values: dict[str, Any], message: str
) -> None:
    append(explorer.settings, *((f"n{number}", 1.0, None) for number in range(9)))
    rows = pa.table({name: [value] for name, value in {"id": "x", **values}.items()})
    write_deltalake(explorer.settings.table_uri("sales"), rows, mode="append", schema_mode="merge")
    with pytest.raises(TableError) as raised:
        explorer.update()
    assert message in str(raised.value)
    assert explorer.service.tables == {}


def test_decimals_with_too_many_digits_are_refused(explorer: ExplorerTarget) -> None:
    rows = pa.table({"id": ["x"], "amount": pa.array([None], pa.decimal128(38, 2))})
    write_deltalake(explorer.settings.table_uri("sales"), rows, mode="append", schema_mode="merge")
    with pytest.raises(TableError, match="amount has 38 digits, and Data Explorer holds 34"):
        explorer.update()


def test_each_type_has_a_column_that_holds_it(explorer: ExplorerTarget) -> None:
    values: dict[str, tuple[pa.DataType, Any, str]] = {
        "yes": (pa.bool_(), True, "bool"),
        "small": (pa.int16(), 7, "int"),
        "large": (pa.int64(), 2**62, "long"),
        "amount": (pa.decimal128(34, 2), "1.10", "decimal"),
        "least": (pa.decimal128(9, 8), "0.00000000", "decimal"),
        "data": (pa.binary(), b"ab", "string"),
        "day": (pa.date32(), day(1).date(), "datetime"),
        "local": (pa.timestamp("us"), day(1).replace(tzinfo=None), "datetime"),
        "parts": (pa.list_(pa.int64()), [1, 2], "dynamic"),
        "a b.c": (pa.string(), "dots and ['quotes']", "string"),
    }
    arrays = {
        name: pa.array([value], pa.string()).cast(type_) if name in ("amount", "least") else pa.array([value], type_)
        for name, (type_, value, _) in values.items()
    }
    rows = pa.table({"id": ["x"], **arrays})
    write_deltalake(explorer.settings.table_uri("sales"), rows, mode="append", schema_mode="merge")
    explorer.update()
    columns = explorer.service.tables["sales"].columns
    assert {name: columns[name] for name in values} == {name: type_ for name, (*_, type_) in values.items()}
    row = explorer.service.current_rows("sales")['{"id":"x"}']
    assert [row[name] for name in values] == [
        True, 7, 2**62, "1.10", "0.00000000", "YWI=", "2026-01-01", "2026-01-01T12:00:00", [1, 2],
        "dots and ['quotes']",
    ]  # fmt: skip


def test_a_check_finds_rows_that_differ(explorer: ExplorerTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_explorer, "_PAGE", 2)
    assert "it has no version of sales yet" in explorer.delivery.equals_table().detail
    explorer.update()
    change_sales(explorer)
    explorer.update()
    assert explorer.delivery.equals_table().passed
    explorer.rows[-1]["_digest"] = "other"
    extents = explorer.service.tables["sales"].extents
    extents[:] = [extent for extent in extents if extent.rows[0]["id"] != "c"]
    extents[0].rows.append({**extents[0].rows[0], "_key": '{"id":"y"}'})
    finding = explorer.delivery.equals_table()
    assert "1 rows are missing. 1 rows are only there. 1 rows have other values." in finding.detail
    explorer.update(whole=True)
    assert explorer.delivery.equals_table().passed
    explorer.rows[0]["price"] = None  # as the service stores a value that does not fit
    assert "1 rows have other values." in explorer.delivery.equals_table().detail


def test_the_status_knows_how_far_the_sink_is(explorer: ExplorerTarget) -> None:
    def status() -> tuple[int | None, int | None, bool]:
        state = sink_status(explorer.settings, explorer.sink, timedelta(0))
        return state.source_version, state.lag, state.holds_vacuum

    assert status()[0] is None
    explorer.update()
    merge(explorer.settings, ("a", 5.0, None))
    assert status() == (0, 1, True)
    explorer.update()
    assert status() == (1, 0, False)


def test_the_sink_is_a_table_of_azure_in_dagster() -> None:
    (spec,) = build_defs([TABLE, SALES]).resolve_assets_def("sales_in_data_explorer").specs
    assert (spec.kinds, spec.description) == (
        {"azure", "table"},
        "The rows of sales in the table sales in data_explorer.",
    )


def test_the_commands_are_shown_without_connecting(explorer: ExplorerTarget) -> None:
    statements = explorer.delivery.statements()
    assert ".add database DATABASE ingestors ('aadapp=CLIENT_ID;TENANT_ID')" in statements
    assert any("arg_max(_version, *) by _key | where not(_is_deleted)" in statement for statement in statements)
    assert any(statement.startswith(".create-or-alter external table") for statement in statements)
    assert explorer.service.requests == []
