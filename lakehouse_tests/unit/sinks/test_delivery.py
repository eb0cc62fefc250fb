"""What a sink brings to a database: every change once, together with the version of the table."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import TableError
from lakehouse_tests.helpers.tables.delivered import Target
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge

in_each_database = pytest.mark.parametrize("target", ["PostgreSQL", "SQL Server"], indirect=True)


@in_each_database
def test_the_first_run_writes_every_row_and_a_second_one_nothing(target: Target) -> None:
    update = target.update()
    assert (update.kind, update.rows, update.deleted, update.source_version, update.lag) == ("whole", 3, 0, 0, 0)
    assert target.stored_rows() == target.table_rows()
    update = target.update()
    assert (update.kind, update.rows, update.deleted) == (None, 0, 0)
    assert target.delivery.find_news() is None


@in_each_database
@pytest.mark.invariant("10.14")
def test_changes_of_every_kind_bring_the_target_to_the_rows_of_the_table(target: Target) -> None:
    target.update()
    merge(target.settings, ("a", 1.5, day(1)), ("d", 4.0, day(3)))
    merge(target.settings, ("a", 1.75, day(5)))
    assert target.delivery.find_news() == "rows of sales may have changed"
    update = target.update()
    assert (update.kind, update.rows, update.source_version) == ("changes", 2, 2)
    assert target.stored_rows() == target.table_rows()
    delete(target.settings, "id = 'b'")
    append(target.settings, ("e", 5.0, None))
    DeltaTable(target.settings.table_uri("sales")).optimize.compact()
    delete(target.settings, "id = 'a'")
    append(target.settings, ("a", 9.0, None))
    update = target.update()
    assert (update.kind, update.rows, update.deleted) == ("changes", 2, 1)
    assert target.stored_rows() == target.table_rows()
    delete(target.settings, "true")
    assert target.update().deleted == len(target.table_rows()) + 4
    assert not target.stored_rows()


@in_each_database
def test_a_file_that_is_rewritten_changes_no_row_of_the_target(target: Target) -> None:
    """Without change data, a commit removes whole files and adds them again."""
    table = DeltaTable(target.settings.table_uri("sales"))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    target.update()
    merge(target.settings, ("a", 1.5, day(1)))
    update = target.update()
    assert (update.kind, update.rows, update.deleted) == ("changes", 1, 0)
    assert target.stored_rows() == target.table_rows()


@in_each_database
def test_a_restored_table_is_compared_as_a_whole(target: Target) -> None:
    target.update()
    merge(target.settings, ("a", 1.5, day(1)), ("d", 4.0, day(3)))
    delete(target.settings, "id = 'b'")
    target.update()
    target.run("CREATE VIEW expensive AS SELECT id FROM sales WHERE price > 1")
    DeltaTable(target.settings.table_uri("sales")).restore(0)
    update = target.update()
    assert (update.kind, update.rows, update.deleted) == ("whole", 2, 1)
    assert target.stored_rows() == target.table_rows()
    assert target.rows("SELECT * FROM expensive ORDER BY id") == [("b",)]


@in_each_database
def test_a_table_that_is_created_again_is_compared_as_a_whole(target: Target) -> None:
    target.update()
    folder = Path(target.settings.table_uri("sales"))
    folder.rename(folder.with_name("former"))
    append(target.settings, ("a", 1.0, day(1)), ("z", 2.0, day(2)))
    assert "created again" in (target.delivery.find_news() or "")
    update = target.update()
    assert (update.kind, update.rows, update.deleted) == ("whole", 1, 2)
    assert target.stored_rows() == target.table_rows()


@in_each_database
def test_changes_that_vacuum_removed_are_replaced_by_a_comparison(target: Target) -> None:
    target.update()
    merge(target.settings, ("a", 1.5, day(1)))
    delete(target.settings, "id = 'b'")
    table = DeltaTable(target.settings.table_uri("sales"))
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    for file in Path(target.settings.table_uri("sales"), "_change_data").iterdir():
        file.unlink()
    update = target.update()
    assert (update.kind, update.rows, update.deleted) == ("whole", 1, 1)
    assert target.stored_rows() == target.table_rows()


@in_each_database
def test_a_column_is_added_and_another_leaves_with_the_declaration(target: Target) -> None:
    target.with_sink(columns=["id", "price"]).update()
    assert target.with_sink(columns=["id", "price"]).update().kind is None
    target.run("CREATE INDEX by_price ON sales (price)", "ALTER TABLE sales ADD COLUMN note text DEFAULT 'ours'")
    sink = target.with_sink(columns=["id", "price", "sold_at"])
    assert sink.delivery.find_news() == "its columns changed"
    assert sink.update().kind == "whole"
    assert sink.stored_rows() == sink.table_rows()
    sink = target.with_sink(columns=["sold_at", "id"])
    sink.update()
    names = [name for (name,) in target.rows("SELECT attname FROM pg_attribute WHERE attrelid = 'sales'::regclass")]
    assert {"id", "sold_at", "note"} <= {*names} and "price" not in names
    assert sink.stored_rows() == sink.table_rows()


def test_another_type_keeps_the_column_with_its_index_and_its_grants(target: Target) -> None:
    uri = target.settings.table_uri("sales")

    def write(number: pa.DataType, *rows: tuple[int, int]) -> None:
        schema = pa.schema([("id", number), ("amount", number)])
        table = pa.Table.from_pylist([{"id": id_, "amount": amount} for id_, amount in rows], schema)
        write_deltalake(uri, table, mode="overwrite", schema_mode="overwrite")

    write(pa.int32(), (1, 10), (2, 20))
    target.update()
    target.run(
        "CREATE INDEX by_amount ON sales (amount)",
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader",
        "GRANT SELECT (id) ON sales TO reader",
        "ALTER TABLE sales ADD COLUMN note text DEFAULT 'ours'",
    )
    write(pa.int64(), (1, 10), (2, 2**40))
    assert target.update().kind == "whole"
    assert target.stored_rows() == target.table_rows()
    assert target.rows("SELECT DISTINCT note FROM sales") == [("ours",)]
    assert target.rows("SELECT has_column_privilege('reader', 'sales', 'id', 'SELECT')") == [(True,)]
    assert target.rows("SELECT to_regclass('by_amount') IS NOT NULL") == [(True,)]
    target.run("DROP OWNED BY reader", "DROP ROLE reader")


@in_each_database
def test_readers_do_not_wait_while_rows_are_compared_for_other_columns(target: Target) -> None:
    target.with_sink(columns=["id", "price"]).update()
    sink = target.with_sink(columns=["id", "sold_at"]).delivery
    with sink._open(locked=True) as opened, opened.source.open(None) as batches:
        opened._stage(batches)
        assert opened.preparation
        assert len(target.rows("SELECT id FROM sales")) == 3
    assert target.with_sink(columns=["id", "sold_at"]).update().kind == "whole"


@in_each_database
def test_a_column_of_somebody_else_is_never_taken(target: Target) -> None:
    target.with_sink(columns=["id"]).update()
    target.run("ALTER TABLE sales ADD COLUMN price text DEFAULT 'mine'")
    with pytest.raises(TableError, match=f"{target.sink.to.place} has a column price that no sink made"):
        target.with_sink(columns=["id", "price"]).update()
    assert target.rows("SELECT DISTINCT price FROM sales") == [("mine",)]


@in_each_database
def test_a_target_that_somebody_dropped_is_created_again(target: Target) -> None:
    target.update()
    target.run("DROP TABLE sales")
    assert target.update().kind == "whole"
    assert target.stored_rows() == target.table_rows()


@in_each_database
def test_a_database_that_was_restored_continues_from_its_own_version(target: Target) -> None:
    target.update()
    target.run("CREATE TABLE backup AS TABLE sales", "CREATE TABLE former AS TABLE lakehouse_progress")
    merge(target.settings, ("a", 1.5, day(1)))
    target.update()
    merge(target.settings, ("b", 2.5, day(1)))
    target.update()
    target.run(
        "BEGIN; TRUNCATE sales; INSERT INTO sales TABLE backup; DELETE FROM lakehouse_progress;"
        " INSERT INTO lakehouse_progress TABLE former; COMMIT"
    )
    assert target.update().kind == "changes"
    assert target.stored_rows() == target.table_rows()


@in_each_database
def test_a_table_that_no_sink_created_is_refused(target: Target) -> None:
    target.run("CREATE TABLE sales (id text)", "INSERT INTO sales VALUES ('mine')")
    with pytest.raises(TableError, match=f"{target.sink.to.place} exists already, and no sink created it"):
        target.update()
    assert target.rows("TABLE sales") == [("mine",)]


@in_each_database
def test_a_target_of_another_sink_is_refused(target: Target) -> None:
    target.update()
    rival = replace(target, sink=replace(target.sink, name="rival"))
    with pytest.raises(TableError, match=f"Sink rival: {target.sink.to.place} is written by the sink sales_in"):
        rival.update()


@in_each_database
def test_values_that_somebody_changed_are_found_and_corrected(target: Target) -> None:
    target.update()
    assert target.delivery.equals_table().passed
    target.run("UPDATE sales SET price = 7 WHERE id = 'a'", "DELETE FROM sales WHERE id = 'b'")
    target.run("INSERT INTO sales VALUES ('x', 1, NULL)", "INSERT INTO sales VALUES ('y', 1, NULL)")
    finding = target.delivery.equals_table()
    assert not finding.passed
    assert "1 rows are missing. 2 rows are only there. 1 rows have other values." in finding.detail
    update = target.update(whole=True)
    assert (update.rows, update.deleted) == (2, 2)
    assert target.delivery.equals_table().passed
    assert target.stored_rows() == target.table_rows()


@pytest.mark.parametrize("rows", [["a", "b"], ["1", "01"]])
def test_a_key_of_another_type_is_followed(target: Target, rows: list[str]) -> None:
    folder = Path(target.settings.table_uri("sales"))
    for number, ids in enumerate((pa.array(rows), pa.array([1, 2], pa.int64()))):
        folder.rename(folder.with_name(f"former_{number}"))
        table = pa.table({"id": ids, "price": [1.0, 2.0]})
        write_deltalake(str(folder), table, configuration={"delta.enableChangeDataFeed": "true"})
        assert target.update().kind == "whole"
        assert target.stored_rows() == target.table_rows()
        target.run("CREATE OR REPLACE VIEW prices AS SELECT price FROM sales")


@in_each_database
def test_a_check_before_the_sink_has_a_new_column_compares_the_version_that_it_has(target: Target) -> None:
    target.update()
    rows = pa.table({"id": ["n"], "note": ["new"]})
    write_deltalake(target.settings.table_uri("sales"), rows, mode="append", schema_mode="merge")
    assert target.delivery.equals_table().passed
    target.update()
    assert target.stored_rows() == target.table_rows()


def test_a_key_with_the_character_nul_that_is_gone_is_no_obstacle(target: Target) -> None:
    target.update()
    append(target.settings, ("a\x00", 1.0, None))
    delete(target.settings, "price = 1.0 AND sold_at IS NULL")
    assert target.update().source_version == 2
    assert target.stored_rows() == target.table_rows()


@in_each_database
def test_a_schema_with_a_percent_sign_is_a_schema(target: Target) -> None:
    target.run('CREATE SCHEMA "a%b"')
    sink = target.with_sink(to=replace(target.sink.to, name="a%b.sales"))
    sink.update()
    merge(target.settings, ("a", 1.5, day(1)))
    assert sink.update().kind == "changes"
    assert sink.stored_rows() == sink.table_rows()
