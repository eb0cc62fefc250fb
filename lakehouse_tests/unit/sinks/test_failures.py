"""What a sink says, and what it leaves, if the database refuses, is away, or is written by two runs at once."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from socket import create_server

import pytest

from lakehouse.errors import LakehouseError, LockedError, SettingsError, TableError
from lakehouse.settings import Settings
from lakehouse.sinks import postgres_session
from lakehouse_tests.helpers.tables.delivered import Target
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge


def with_url(target: Target, url: str) -> Target:
    settings = Settings(home=target.settings.home, sync=False, sink_urls=json.dumps({"postgres": url}))
    return replace(target, settings=settings)


def test_a_database_that_no_setting_names_is_refused(target: Target) -> None:
    settings = Settings(home=target.settings.home, sync=False)
    with pytest.raises(SettingsError, match="writes to postgres, which LAKEHOUSE_SINK_URLS does not name"):
        replace(target, settings=settings).update()


def test_a_database_that_is_away_is_named_without_its_password(target: Target) -> None:
    with create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    away = with_url(target, f"postgresql://lake:secret@127.0.0.1:{port}/shop")
    with pytest.raises(TableError, match="Sink sales_in_postgres: the database refused: .*refused") as raised:
        away.update()
    assert "secret" not in str(raised.value)
    status = away.status(timedelta(days=7))
    assert status.holds_vacuum and "the database refused" in (status.problem or "")
    target.update()
    assert target.stored_rows() == target.table_rows()


def test_a_user_without_grants_writes_nothing(target: Target) -> None:
    target.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    reader = with_url(target, f"postgresql://reader@127.0.0.1:{target.server.port}/{target.database}")
    with pytest.raises(TableError, match="permission denied for schema public"):
        reader.update()
    assert target.rows("SELECT to_regclass('sales')") == [(None,)]


def test_a_user_with_the_grants_of_the_page_writes(target: Target) -> None:
    target.run("DROP ROLE IF EXISTS lake", "CREATE ROLE lake LOGIN", "CREATE SCHEMA shop AUTHORIZATION lake")
    lake = with_url(target, f"postgresql://lake@127.0.0.1:{target.server.port}/{target.database}")
    lake = lake.with_sink(to=replace(target.sink.to, name="shop.sales"))
    lake.update()
    merge(lake.settings, ("a", 1.5, day(1)))
    assert lake.update().kind == "changes"
    assert lake.stored_rows() == lake.table_rows()
    target.run("DROP OWNED BY lake", "DROP ROLE lake")


@pytest.mark.invariant("10.14")
@pytest.mark.parametrize("target", ["PostgreSQL", "SQL Server"], indirect=True)
def test_racing_runs_write_every_change_once(target: Target) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(5):
            merge(target.settings, ("a", float(number), day(1)), (f"n{number}", 1.0, None))
            delete(target.settings, f"id = 'n{number - 1}'")
            updates = [future.result() for future in [pool.submit(target.update) for _ in range(4)]]
            assert sorted(str(update.kind) for update in updates)[:3] == ["None"] * 3
            assert target.stored_rows() == target.table_rows()


def test_racing_runs_do_so_with_any_isolation_of_the_server(target: Target) -> None:
    target.run(f'ALTER DATABASE "{target.database}" SET default_transaction_isolation = serializable')
    test_racing_runs_write_every_change_once(target)


def test_a_run_waits_for_another_one_only_for_so_long(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.update()
    statements = ("SET LOCAL lock_timeout = '100ms'", *postgres_session._SESSION[1:])
    monkeypatch.setattr(postgres_session, "_SESSION", statements)
    with target.server.connect(target.database) as connection, connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('lakehouse public.sales', 0))")
        merge(target.settings, ("a", 1.5, day(1)))
        with pytest.raises(LockedError, match="another transaction holds its target"):
            target.update()
        assert target.delivery.find_news(), "a sensor does not wait"


def test_a_failure_between_the_rows_and_the_version_leaves_both_as_they_were(target: Target) -> None:
    target.update()
    before = target.stored_rows()
    merge(target.settings, ("a", 1.5, day(1)))
    target.run("ALTER TABLE lakehouse_progress ADD CHECK (version < 1)")
    with pytest.raises(TableError, match="violates check constraint"):
        target.update()
    assert target.stored_rows() == before
    target.run("ALTER TABLE lakehouse_progress DROP CONSTRAINT lakehouse_progress_version_check")
    assert target.update().rows == 1
    assert target.stored_rows() == target.table_rows()


def test_rows_that_share_an_identity_are_named(target: Target) -> None:
    append(target.settings, ("a", 5.0, None))
    with pytest.raises(LakehouseError, match=r"could not create unique index .*Key \(id\)=\(a\) is duplicated"):
        target.update()


def test_maintenance_waits_only_for_changes_that_are_old(target: Target) -> None:
    assert not target.status(timedelta(days=7)).holds_vacuum
    target.update()
    merge(target.settings, ("a", 1.5, day(1)))
    status = target.status(timedelta(days=7))
    assert (status.source_version, status.lag, status.holds_vacuum) == (0, 1, False)
    assert target.status(timedelta(0)).holds_vacuum
    assert not target.with_sink(enabled=False).status(timedelta(0)).holds_vacuum
