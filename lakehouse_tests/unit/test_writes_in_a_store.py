"""Tables in a real object store are restored, materialized and exported without a JVM, and no writer undoes another."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from lakehouse.declaration import Export, View
from lakehouse.errors import ConflictError, QueryError, TableError
from lakehouse.exports.exporter import Exporter
from lakehouse.ledger.ledger import ledger_of
from lakehouse.ledger.positions import SourceId
from lakehouse.operations.materialize import Materialization, ViewUpdate
from lakehouse.operations.rewrite_tables import plan_restore
from lakehouse.query import query
from lakehouse.serve import snapshots
from lakehouse.settings import Settings
from lakehouse.storage import delta_rs_writer
from lakehouse.storage.delta_rs_writer import create_with_rows, replace_all
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.commands import lakehouse_says
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.tables.azurite import AnyStore
from lakehouse_tests.helpers.tables.delivered import new_target
from lakehouse_tests.helpers.tables.exported import (
    append,
    apply_changes,
    day,
    delete,
    exported_rows,
    manifests,
    merge,
    rows_of_table,
)
from lakehouse_tests.unit.views.orders import add_customers, add_orders

DEAR = View("dear", "SELECT id, customer, price FROM orders WHERE price > 10", "A dear order.")
SPENT = View(
    "spent",
    "SELECT city, sum(price) AS total FROM dear JOIN customers ON customer = customers.id GROUP BY city",
    "What a city spent on dear orders.",
    materialized=True,
)
PLACES = count()


@pytest.fixture
def settings(store: AnyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("LAKEHOUSE_TABLES", f"{store.root}/lake{next(PLACES)}")
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    return Settings.load()


def write_batches(settings: Settings, *numbers: int) -> Layout:
    """Write the merged table of temperatures: version 0 has the progress 1 and one row, and so on."""
    layout = Layout("temperatures", settings.table_uri("temperatures"), "Temperatures.", ())
    for number in numbers:
        ledger = ledger_of(settings, layout.name)
        fields = {"source": SourceId("kafka", "c/t"), "progress": {0: number}}
        rows = pa.table({"number": [*range(1, number + 1)]}).to_reader()
        write = replace_all if ledger.exists else create_with_rows
        write(layout, rows, ledger.next_commit("batch", "").with_fields(**fields))
    return layout


def numbers_of(layout: Layout) -> list[int]:
    return sorted(DeltaTable(layout.uri).to_pyarrow_table()["number"].to_pylist())


def path_in_bucket(address: str) -> str:
    return urlsplit(address).path.lstrip("/")


def append_number(layout: Layout, number: int = 9) -> None:
    """Commit as another process, which may do so while this one reads rows."""
    write = Thread(target=write_deltalake, args=(layout.uri, pa.table({"number": [number]})), kwargs={"mode": "append"})
    write.start()
    write.join()


@pytest.mark.invariant("1.6")
def test_a_restore_brings_back_rows_and_progress(settings: Settings) -> None:
    layout = write_batches(settings, 1, 2, 3)
    result = lakehouse_says("restore", layout.name, "--version", "0", "--yes")
    assert result.code == 0, result.err
    assert "3 rows now, 1 then" in result.err
    ledger = ledger_of(settings, layout.name)
    assert (ledger.version, numbers_of(layout)) == (3, [1])
    assert ledger.progress is not None and ledger.progress.positions == {0: 1}
    write_batches(settings, 2)
    assert numbers_of(layout) == [1, 2], "the next batch continues"


def test_a_restore_is_refused_after_a_commit_of_another_writer(settings: Settings) -> None:
    layout = write_batches(settings, 1, 2)
    planned_restore = plan_restore(layout, 0)
    append_number(layout)
    with pytest.raises(ConflictError, match="Another writer changed temperatures since it was read"):
        planned_restore.run()
    assert (DeltaTable(layout.uri).version(), numbers_of(layout)) == (2, [1, 2, 9])


def test_a_restore_never_undoes_a_commit_that_came_after_it_had_opened_the_table(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = write_batches(settings, 1, 2)
    restore = DeltaTable.restore

    def restore_late(*arguments: Any, **options: Any) -> Any:
        append_number(layout)
        return restore(*arguments, **options)

    monkeypatch.setattr(DeltaTable, "restore", restore_late)
    with pytest.raises(ConflictError, match="Another writer changed temperatures since it was read"):
        plan_restore(layout, 0).run()
    assert (DeltaTable(layout.uri).version(), numbers_of(layout)) == (2, [1, 2, 9])


def test_a_restore_without_its_files_is_refused(settings: Settings, store: AnyStore) -> None:
    layout = write_batches(settings, 1, 2)
    (address,) = DeltaTable(layout.uri, version=0).file_uris()
    store.remove(path_in_bucket(address))
    with pytest.raises(TableError, match="VACUUM has deleted files of it"):
        plan_restore(layout, 0).run()
    assert (DeltaTable(layout.uri).version(), numbers_of(layout)) == (1, [1, 2])


def test_a_creation_and_a_replacement_never_undo_a_commit_that_came_while_rows_were_read(settings: Settings) -> None:
    layout = Layout("numbers", settings.table_uri("numbers"), "Numbers.", ())
    for write in (create_with_rows, replace_all):
        commit = ledger_of(settings, layout.name).next_commit("derived", "")
        rows = overtaken_rows(lambda: append_number(layout))
        with pytest.raises(ConflictError, match="Another writer changed numbers since it was read"):
            write(layout, rows, commit)
    assert (DeltaTable(layout.uri).version(), numbers_of(layout)) == (1, [9, 9])
    commit = ledger_of(settings, layout.name).next_commit("derived", "")
    with pytest.raises(ConflictError, match="Another writer changed numbers since it was read"):
        create_with_rows(layout, pa.table({"number": [1]}).to_reader(), commit)


def test_a_creation_never_adds_rows_to_a_table_that_was_created_after_it_had_looked(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout("numbers", settings.table_uri("numbers"), "Numbers.", ())

    def write_late(*arguments: Any, **options: Any) -> None:
        append_number(layout)
        write_deltalake(*arguments, **options)

    monkeypatch.setattr(delta_rs_writer, "write_deltalake", write_late)
    commit = ledger_of(settings, layout.name).next_commit("derived", "")
    with pytest.raises(ConflictError, match="Another writer changed numbers since it was read"):
        create_with_rows(layout, pa.table({"number": [1]}).to_reader(), commit)
    assert (DeltaTable(layout.uri).version(), numbers_of(layout)) == (0, [9])


def overtaken_rows(act: Callable[[], None]) -> pa.RecordBatchReader:
    """Rows, with an act between two of them."""
    rows = pa.table({"number": [1]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches()
        act()
        yield from rows.to_batches()

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def add_tables(settings: Settings) -> Materialization:
    add_orders(settings, ("1", "ann", "5.00"), ("2", "ann", "15.00"), ("3", "bob", "25.00"))
    add_customers(settings, ("ann", "Oslo"), ("bob", "Bern"))
    return Materialization(settings, SPENT, (DEAR, SPENT))


def totals_of(settings: Settings) -> dict[str, Decimal]:
    rows = DeltaTable(settings.table_uri("spent")).to_pyarrow_table().to_pylist()
    return {row["city"]: row["total"] for row in rows}


def test_a_view_is_materialized_and_its_first_version_has_its_rows(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = add_tables(settings)
    assert spent.update() == ViewUpdate("spent", 0, {"customers": 0, "orders": 0}, 2)
    assert totals_of(settings) == {"Bern": Decimal("25.00"), "Oslo": Decimal("15.00")}
    assert spent.update().rows is None
    add_orders(settings, ("4", "ann", "15.00"))
    assert spent.find_news() == ("orders",)
    assert spent.update() == ViewUpdate("spent", 1, {"customers": 0, "orders": 1}, 2)
    assert totals_of(settings) == {"Bern": Decimal("25.00"), "Oslo": Decimal("30.00")}
    assert query(settings, "SELECT sum(total) FROM spent", views=(DEAR, SPENT)).rows == [(Decimal("55.00"),)]
    monkeypatch.setattr(snapshots, "find_views", lambda _: (DEAR, SPENT))
    assert snapshots.existing_tables(settings) == ["spent"]


def test_what_an_interrupted_creation_leaves_is_no_table_and_is_removed_later(
    settings: Settings, store: AnyStore
) -> None:
    spent, directory = add_tables(settings), path_in_bucket(settings.table_uri("spent"))
    store.put(f"{directory}/part-0.parquet", b"PAR1")
    with pytest.raises(QueryError, match="View spent is materialized, but its rows are not stored yet"):
        query(settings, "FROM spent", views=(DEAR, SPENT))
    assert spent.update().rows == 2
    assert totals_of(settings) == {"Bern": Decimal("25.00"), "Oslo": Decimal("15.00")}
    table = update_until_vacuum(settings, spent)
    names = store.names(directory)
    assert [name for name in names if name.endswith("parquet")] == [table.file_uris()[0].rpartition("/")[2]]
    assert spent.find_news() == ()


def update_until_vacuum(settings: Settings, spent: Materialization) -> DeltaTable:
    """Replace the rows of the view until a commit removes old files, which no retention keeps."""
    table = DeltaTable(settings.table_uri("spent"))
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    table.alter.set_table_properties(properties, raise_if_not_exists=False)
    while table.version() < 10:
        add_orders(settings, ("5", "ann", "20.00"))
        assert spent.update().rows == 2
        table.update_incremental()
    return table


def test_a_vacuum_that_meets_another_writer_is_left_to_a_later_commit(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent, vacuum = add_tables(settings), DeltaTable.vacuum
    spent.update()

    def vacuum_in_vain(*arguments: Any, **options: Any) -> list[str]:
        if options.get("commit_properties"):
            raise CommitFailedError("Metadata changed since last commit.")
        return vacuum(*arguments, **options)

    monkeypatch.setattr(DeltaTable, "vacuum", vacuum_in_vain)
    assert update_until_vacuum(settings, spent).version() == 10


def test_a_row_that_cannot_be_computed_the_first_time_leaves_no_table(settings: Settings) -> None:
    numbers = View("as_numbers", "SELECT id::INT AS number FROM numbers", "A number.", materialized=True)
    write_deltalake(settings.table_uri("numbers"), pa.table({"id": [*map(str, range(200_000)), "x"]}))
    with pytest.raises(TableError, match="View as_numbers cannot be computed: Could not convert string 'x' to INT32"):
        Materialization(settings, numbers, (numbers,)).update()
    assert not ledger_of(settings, "as_numbers").exists


SALES = Export("daily_sales", of="sales")


def folder(settings: Settings, export: Export) -> Path:
    return settings.home_folder / "exports" / export.folder_name


def test_every_row_is_exported_to_the_disk(settings: Settings) -> None:
    append(settings, ("a", 1.0, day(1)), ("b", 2.0, day(2)), ("c", None, None))
    assert Exporter(settings, SALES).update().rows == 3
    assert exported_rows(folder(settings, SALES)) == rows_of_table(settings)
    assert Exporter(settings, SALES).update().kind is None
    delete(settings, "id = 'a'")
    assert Exporter(settings, SALES).update().version == 2
    assert exported_rows(folder(settings, SALES)) == rows_of_table(settings)


def test_a_sink_follows_a_table_in_a_store(settings: Settings, postgres: Postgres) -> None:
    append(settings, ("a", 1.0, day(1)), ("b", 2.0, day(2)), ("c", None, None))
    with new_target(postgres, settings.home_folder) as local_target:
        of_store = settings.model_copy(update={"sink_urls": local_target.settings.sink_urls})
        target = replace(local_target, settings=of_store)
        for kind in ("whole", "changes", None):
            assert target.update().kind == kind
            assert target.stored_rows() == target.table_rows()
            if kind == "whole":
                delete(settings, "id = 'a'")
        assert target.delivery.equals_table().passed


def test_changes_are_exported_to_the_disk_also_from_partitions_with_special_names(settings: Settings) -> None:
    export = replace(SALES, changes=True)
    columns = {"id": ["a", "b"], "price": [1.0, 2.0], "sold_at": [day(1), day(2)], "place": ["a b:c%2", "ä/?#"]}
    write_deltalake(settings.table_uri("sales"), pa.table(columns), partition_by="place")
    write_deltalake(settings.table_uri("sales"), pa.table(columns), mode="append")
    assert Exporter(settings, export).update().kind == "whole"
    write_deltalake(settings.table_uri("sales"), pa.table(columns), mode="append")
    delete(settings, "id = 'a'")
    assert Exporter(settings, export).update().kind == "changes"
    assert [manifest.rows for manifest in manifests(folder(settings, export))] == [4, 5]
    assert apply_changes(folder(settings, export)) == rows_of_table(settings)


def test_changes_whose_files_are_gone_stop_an_export(settings: Settings, store: AnyStore) -> None:
    export = replace(SALES, changes=True)
    append(settings, ("a", 1.0, day(1)))
    Exporter(settings, export).update()
    merge(settings, ("a", 2.0, day(1)))
    directory = path_in_bucket(settings.table_uri("sales"))
    (name,) = store.names(f"{directory}/_change_data")
    store.remove(f"{directory}/_change_data/{name}")
    with pytest.raises(TableError, match="a file with changes of version 1 is gone: VACUUM removed it.*--whole"):
        Exporter(settings, export).update()
    assert Exporter(settings, export).update(whole=True).version == 2
    assert apply_changes(folder(settings, export)) == rows_of_table(settings)
