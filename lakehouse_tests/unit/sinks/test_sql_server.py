"""What a sink sends to SQL Server: the bytes of each value, statements of T-SQL, and what it does if they fail."""

import json
import re
import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from math import inf, nan
from pathlib import Path
from socket import create_server
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.declaration import SqlServerTable
from lakehouse.declaration.sink import RowIdentity
from lakehouse.errors import DeclarationError, LakehouseError, LockedError, SettingsError, TableError
from lakehouse.settings import Settings
from lakehouse.sinks import sql_server_session
from lakehouse_tests.helpers.brokers.certificates import Authority
from lakehouse_tests.helpers.databases.sql_server import GUARD, SqlServer, in_postgres, running_sql_server
from lakehouse_tests.helpers.tables.delivered import Target
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge
from lakehouse_tests.unit.sinks.test_values import ROWS, TYPES

STATEMENTS = 14  # of a run that writes and deletes rows, with COMMIT
pytestmark = pytest.mark.parametrize("target", ["SQL Server"], indirect=True)


def write(target: Target, rows: list[dict[str, Any]], *fields: tuple[str, pa.DataType]) -> None:
    table = pa.Table.from_pylist(rows, pa.schema(list(fields)))
    write_deltalake(target.settings.table_uri("sales"), table, mode="overwrite", schema_mode="overwrite")


def with_url(target: Target, url: str) -> Target:
    return replace(
        target, settings=Settings(home=target.settings.home, sync=False, sink_urls=json.dumps({"sqlserver": url}))
    )


def test_every_type_arrives_with_every_value(target: Target) -> None:
    held_rows = [{name: value for name, value in row.items() if value != inf} for row in ROWS]
    rows = [{**row, "double": 2.0**-1022, "single": 2.0**-126} if "close" in row["id"] else row for row in held_rows]
    write(target, rows, *TYPES.items())
    target.update()
    without_single = replace(target, sink=replace(target.sink, columns=[name for name in TYPES if name != "single"]))
    assert without_single.stored_rows() == without_single.table_rows()
    single_bytes = target.rows("SELECT id, encode(float4send(single), 'hex') FROM sales WHERE single IS NOT NULL")
    assert dict(single_bytes) == {row["id"]: pack(">f", row["single"]).hex() for row in rows if "single" in row}
    assert target.delivery.equals_table().passed
    changed = [{**row, "text": f"{row.get('text', '')} ", "data": bytes(row.get("data", b"")) + b"\0"} for row in rows]
    write(target, changed, *TYPES.items())
    assert target.update().rows == len(rows)
    assert without_single.stored_rows() == without_single.table_rows()


def test_many_rows_and_long_texts_need_many_packets(target: Target) -> None:
    rows = [{"id": f"{number:05}", "text": "\U0001f600é" * (number % 7 * 3_000)} for number in range(300)]
    write(target, rows, ("id", pa.string()), ("text", pa.string()))
    target.update()
    assert target.stored_rows() == target.table_rows()


def test_zeros_with_another_sign_are_written(target: Target) -> None:
    append(target.settings, ("z", -0.0, None))
    target.update()
    assert str(target.rows("SELECT price FROM sales WHERE id = 'z'")) == "[(-0.0,)]"
    merge(target.settings, ("z", 0.0, None))
    assert target.update().rows == 1
    assert str(target.rows("SELECT price FROM sales WHERE id = 'z'")) == "[(0.0,)]"


def test_nested_values_are_json(target: Target) -> None:
    write(target, [{"id": "a", "tags": ["b", None]}], ("id", pa.string()), ("tags", pa.list_(pa.string())))
    target.update()
    assert target.rows("SELECT tags FROM sales") == [('["b",null]',)]


def test_an_identity_may_have_nulls(target: Target) -> None:
    target = replace(target, identity=RowIdentity(("place", "kind"), can_be_null=True))
    fields = (("place", pa.string()), ("kind", pa.string()), ("count", pa.int64()))
    groups = [("a", None), (None, None), ("", None), (None, "a"), ("a", "")]
    rows = [{"place": place, "kind": kind, "count": number} for number, (place, kind) in enumerate(groups)]
    for remaining in (rows, rows[1:], [{**row, "count": 9} for row in rows], rows[:1]):
        write(target, remaining, *fields)
        target.update()
        assert target.stored_rows() == target.table_rows()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            {"id": "a", "price": nan},
            "price of the row id=a is not finite, or too close to zero, which SQL Server cannot hold",
        ),
        ({"id": "a", "price": -inf}, "price of the row id=a is not finite"),
        ({"id": "a", "price": 5e-324}, "too close to zero"),
        ({"id": "a "}, "id of the row id=a  ends with a space, which keys of SQL Server do not distinguish"),
        ({"id": "\U0001f600" * 201}, "is longer than 400 characters, too long for a key in SQL Server"),
    ],
)
def test_what_sql_server_cannot_hold_is_refused_before_any_row(
    target: Target, row: dict[str, Any], reason: str
) -> None:
    write(target, [row], ("id", pa.string()), ("price", pa.float64()))
    with pytest.raises(TableError, match=reason):
        target.update()
    assert target.rows("SELECT to_regclass('dbo.sales')") == [(None,)]


def test_bytes_of_a_key_that_an_index_does_not_distinguish_are_refused(target: Target) -> None:
    write(target, [{"id": b"a\0"}], ("id", pa.binary()))
    with pytest.raises(TableError, match="ends with a zero"):
        target.update()


def test_a_part_of_a_key_has_its_share_of_an_index(target: Target) -> None:
    target = replace(target, identity=RowIdentity(("id", "part")))
    fields = (("id", pa.string()), ("part", pa.string()))
    write(target, [{"id": "a", "part": "b" * 200}], *fields)
    target.update()
    write(target, [{"id": "a", "part": "b" * 201}], *fields)
    with pytest.raises(TableError, match="part of the row id=a, part=b.* is longer than 200 characters"):
        target.update()
    write(target, [{"id": "a", "part": "c"}], *fields)
    assert target.update().rows == 1
    assert target.stored_rows() == target.table_rows()


def test_two_rows_of_an_identity_are_refused(target: Target) -> None:
    append(target.settings, ("a", 5.0, None))
    with pytest.raises(TableError, match="duplicated"):
        target.update()
    delete(target.settings, "price = 5.0")
    target.update()
    append(target.settings, ("a", 5.0, None))
    with pytest.raises(TableError, match="duplicated"):
        target.update(whole=True)


@pytest.mark.parametrize("name", ["id", "on"])
def test_a_time_out_of_range_is_refused(target: Target, name: str) -> None:
    dates = pa.array([-800_000], pa.int32()).cast(pa.date32())
    table = pa.table({"id": dates if name == "id" else ["a"], "on": dates})
    write_deltalake(target.settings.table_uri("sales"), table, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(TableError, match=f"{name} of the row id=.* is not in the years 1 to 9999"):
        target.update()


def test_the_longest_key_and_the_last_times_arrive(target: Target) -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999)
    row = {"id": "é" * 400, "on": date.max, "at": last, "instant": last.replace(tzinfo=UTC)}
    types = (pa.string(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
    write(target, [row], *zip(row, types, strict=True))
    target.update()
    assert target.stored_rows() == target.table_rows()


def test_rows_that_do_not_fit_are_left_out_with_their_key(target: Target) -> None:
    target = target.with_sink(unfit="leave_out")
    append(target.settings, ("n", nan, None))
    assert target.update().rows == 3
    assert target.rows("SELECT key, column_name, version FROM lakehouse_unfit") == [("n", "price", 1)]
    merge(target.settings, ("n", 1.0, None), ("a", inf, None))
    update = target.update()
    assert (update.rows, update.deleted) == (1, 1)
    assert target.rows("SELECT key, column_name, version FROM lakehouse_unfit") == [("a", "price", 2)]
    assert target.delivery.equals_table().passed


def test_printed_statements_are_t_sql(target: Target) -> None:
    statements = target.with_sink(unfit="leave_out").delivery.statements()
    assert [statement for statement in statements if statement.startswith("UPDATE t SET")]
    for statement in statements:
        if not statement.startswith("INSERT BULK"):
            for part in statement.removeprefix(GUARD).split("; "):
                in_postgres(re.sub(r"%\((\w+)\)s", r"@\1", part))


def test_names_may_have_brackets_quotes_and_percent_signs(target: Target) -> None:
    fields = (("id", pa.string()), ("50% 'net]", pa.int64()))
    write(target, [{"id": "a", "50% 'net]": 1}], *fields)
    target = target.with_sink(to=SqlServerTable("dbo.sa%les"))
    target.update()
    write(target, [{"id": "a", "50% 'net]": 2}], *fields)
    assert target.update().rows == 1
    assert target.rows('SELECT * FROM dbo."sa%les"') == [("a", 2)]


def test_columns_whose_names_differ_in_case_are_refused(target: Target) -> None:
    with pytest.raises(DeclarationError, match="SQL Server has one name for b and another case of it"):
        target.with_sink(columns=["id", "b", "B"])


def server_of(target: Target) -> SqlServer:
    assert target.sql_server
    return target.sql_server


@pytest.mark.invariant("10.14")
@pytest.mark.parametrize("nth", range(STATEMENTS))
def test_a_connection_that_ends_at_any_statement_loses_nothing(target: Target, nth: int) -> None:
    target.update()
    merge(target.settings, ("a", 1.5, day(1)), ("n", 1.0, None))
    delete(target.settings, "id = 'b'")
    before, server = target.stored_rows(), server_of(target)
    server.ends_before = nth
    with pytest.raises(TableError, match="the database refused"):
        target.update()
    server.ends_before = None
    assert target.stored_rows() == before
    assert target.update().rows == 2
    assert target.stored_rows() == target.table_rows()


def test_a_run_has_as_many_statements_as_are_ended(target: Target) -> None:
    target.update()
    merge(target.settings, ("a", 1.5, day(1)), ("n", 1.0, None))
    delete(target.settings, "id = 'b'")
    server = server_of(target)
    server.ends_before = 100
    target.update()
    assert 100 - server.ends_before == STATEMENTS


def test_an_error_after_a_result_is_an_error(target: Target) -> None:
    """A trigger may fail when the number of rows of its statement is known."""
    target.update()
    before = target.stored_rows()
    body = "BEGIN RAISE EXCEPTION 'refused by a trigger'; END"
    target.run(
        f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
        "CREATE TRIGGER refuse AFTER INSERT OR DELETE ON dbo.sales EXECUTE FUNCTION refuse()",
    )
    merge(target.settings, ("a", 1.5, day(1)), ("n", 1.0, None))
    delete(target.settings, "id = 'b'")
    with pytest.raises(TableError, match="refused by a trigger"):
        target.update()
    assert target.stored_rows() == before
    target.run("DROP TRIGGER refuse ON dbo.sales")
    assert target.update().kind == "changes"
    assert target.stored_rows() == target.table_rows()


def test_a_table_that_a_query_overlooks_is_never_dropped(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.run("CREATE TABLE dbo.sales (id varchar(40))", "INSERT INTO dbo.sales VALUES ('of somebody else')")
    monkeypatch.setattr(sql_server_session.SqlServerSession, "find_progress", lambda _: (False, None))
    with pytest.raises(TableError, match="already exists"):
        target.update()
    assert target.rows("SELECT * FROM dbo.sales") == [("of somebody else",)]


def test_a_type_that_somebody_changed_is_corrected(target: Target) -> None:
    target.update()
    target.run("ALTER TABLE dbo.sales ALTER COLUMN price TYPE real")
    assert target.delivery.find_news() == "its columns changed"
    target.update()
    assert target.rows("SELECT data_type FROM information_schema.columns WHERE column_name = 'price'")[0] == (
        "double precision",
    )
    assert target.stored_rows() == target.table_rows()


def test_a_server_that_is_away_is_named(target: Target) -> None:
    with create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TableError, match="the database refused: Connection refused"):
        with_url(target, f"mssql://lake:secret@127.0.0.1:{port}/shop").update()


def test_a_run_waits_for_another_one_only_for_so_long(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.update()
    monkeypatch.setattr(sql_server_session, "PATIENCE", 1)
    merge(target.settings, ("a", 1.5, day(1)))
    with sql_server_session.open_sql_server(target.settings, target.sink, locked=True):
        with pytest.raises(LockedError, match="locked for 1 seconds: another transaction holds its target"):
            target.update()
        assert target.delivery.find_news(), "a sensor does not wait"
    assert target.update().kind == "changes"


def test_a_table_that_somebody_holds_is_locked(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.update()
    monkeypatch.setattr(sql_server_session, "PATIENCE", 1)
    merge(target.settings, ("a", 1.5, day(1)))
    with target.server.connect(target.database) as connection, connection.transaction():
        connection.execute("LOCK TABLE dbo.sales IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(LockedError, match="locked for 1 seconds"):
            target.update()


def test_a_server_that_does_not_answer_is_named(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_server_session, "_SECONDS_TO_CONNECT", 1)
    with create_server(("127.0.0.1", 0)) as silent:
        url = f"mssql://lake:secret@127.0.0.1:{silent.getsockname()[1]}/shop"
        with pytest.raises(TableError, match="the database refused: (timed out|TimeoutError)"):
            with_url(target, url).update()


def test_a_wrong_password_is_refused_and_not_shown(target: Target) -> None:
    url = server_of(target).url.replace("s3cret%20p%40ss", "wr0ng%20p%40ss")
    with pytest.raises(TableError, match="the database refused: Login failed for user") as error:
        with_url(target, url).update()
    assert "wr0ng" not in str(error.value)


@pytest.mark.parametrize("option", ["trust=yes", "encrypt"])
def test_an_unknown_option_is_refused(target: Target, option: str) -> None:
    with pytest.raises(LakehouseError, match="option"):
        with_url(target, f"{server_of(target).url}?{option}").update()


def test_a_url_of_another_kind_is_refused(target: Target) -> None:
    with pytest.raises(SettingsError, match="writes to sqlserver, which is not a database of SQL Server"):
        with_url(target, "postgresql://lake@127.0.0.1/shop").update()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def encrypted(target: Target, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """The same target of a server with a certificate for localhost, which counts as another machine."""
    certificate, key = authority.sign("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setattr(sql_server_session, "is_local", lambda _: False)
    with running_sql_server(target.server, target.database, context) as server:
        yield with_url(target, server.url.replace("127.0.0.1", "localhost"))


def test_a_server_of_a_trusted_authority_is_used(
    encrypted: Target, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    assert encrypted.update().rows == 3
    assert (
        with_url(encrypted, f"{encrypted.settings.sink_addresses['sqlserver']}?cafile={authority.file}").update().kind
        is None
    )


def test_a_server_of_an_unknown_authority_is_refused(encrypted: Target) -> None:
    with pytest.raises(TableError, match="certificate verify failed"):
        encrypted.update()


def test_a_server_with_another_name_is_refused(
    encrypted: Target, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    url = encrypted.settings.sink_addresses["sqlserver"].replace("localhost", "127.0.0.1")
    with pytest.raises(TableError, match="Certificate does not match host name '127.0.0.1'"):
        with_url(encrypted, url).update()


def test_a_server_without_encryption_is_used_only_if_the_url_says_so(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_server_session, "is_local", lambda _: False)
    with pytest.raises(TableError, match="encryption"):
        target.update()
    assert with_url(target, f"{server_of(target).url}?encrypt=no").update().rows == 3
