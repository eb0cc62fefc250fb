"""A stand-in for SQL Server, which no package has: its protocol, over a database of PostgreSQL.

It takes just the statements that sinks send: each is parsed as T-SQL, and runs as the same statement of PostgreSQL.
"""

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import sqlglot
from sqlglot import exp

from lakehouse_tests.helpers.databases import tds
from lakehouse_tests.helpers.databases.postgres import Postgres

PASSWORD = "s3cret p@ss"
_STAGE = "[pg_temp].[stage]"
_JOINED_DELETE = re.compile(r"DELETE t FROM (\S+) AS t JOIN (\S+) AS s ON (.*?) WHERE (s\..*)", re.DOTALL)
_DELETE = re.compile(r"DELETE (\w) FROM (\S+) AS \1 WHERE (.*)", re.DOTALL)
_UPDATE = re.compile(r"UPDATE t SET (.*?) FROM (\S+) AS t JOIN (\S+) AS s ON (.*?) WHERE (s\..*)", re.DOTALL)
_JSON = re.compile(r"\(SELECT ([^()]*?) FOR JSON PATH, INCLUDE_NULL_VALUES, WITHOUT_ARRAY_WRAPPER\)")
_COUNT = "; SELECT @@ROWCOUNT"
GUARD = "IF @@TRANCOUNT <> 1 THROW 50000, N'The database ended the transaction of the sink', 1; "
_TYPES = {
    "boolean": "bit",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "real": "real",
    "double precision": "float",
    "date": "date",
    "bytea": "varbinary",
    "numeric": "decimal",
    "character varying": "nvarchar",
    "text": "nvarchar",
    "timestamp without time zone": "datetime2",
    "timestamp with time zone": "datetimeoffset",
}
_UNLESS_EXISTS = re.compile(r"IF OBJECT_ID\(N'(?:[^']|'')*', N'U'\) IS NULL (CREATE TABLE)")


def in_postgres(statement: str) -> str:
    """Return a statement of T-SQL as one of PostgreSQL; values have names. It fails if it is not T-SQL."""
    text = statement.replace("[#lakehouse_stage]", _STAGE).replace(" CLUSTERED ", " ")
    text = _UNLESS_EXISTS.sub(r"\1", text)
    text = _JOINED_DELETE.sub(r"DELETE FROM \1 AS t USING \2 AS s WHERE (\3) AND \4", text)
    text = _DELETE.sub(r"DELETE FROM \2 AS \1 WHERE \3", text)
    text = _UPDATE.sub(r"UPDATE \2 AS t SET \1 FROM \3 AS s WHERE (\4) AND \5", text)
    text = _JSON.sub(lambda match: f"CONCAT_WS('|', {match[1]})", text)
    text = re.sub(r"\bfloat\b", "double precision", text)
    (tree,) = sqlglot.parse(text, read="tsql")
    assert tree is not None and not isinstance(tree, exp.Command), statement
    if isinstance(tree, exp.Create) and text != statement and "OBJECT_ID" in statement:
        tree.set("exists", True)
    sql = tree.transform(_translated).sql("postgres").replace("%", "%%").replace(" NULLS FIRST", "")
    sql = re.sub(r"(?<=BYTEA)\(\d+\)", "", sql.replace("(MAX)", ""))
    sql = sql.replace(" BIT NULL", " BOOLEAN NULL").replace("DATALENGTH(", "octet_length(")
    sql = re.sub(r'(\w\."_gone") = ([01])', lambda match: match[1] if match[2] == "1" else f"NOT {match[1]}", sql)
    return re.sub(r"[@$]([Pp]?\w+)\b", r"%(\1)s", sql)


def _translated(node: Any) -> Any:
    if isinstance(node, exp.ColumnConstraint) and isinstance(node.kind, exp.CollateColumnConstraint):
        return None
    if isinstance(node, exp.Cast | exp.Convert) and "BINARY" in node.sql().upper():
        return exp.func("float8send", *[exp.cast(column, "double") for column in node.find_all(exp.Column)])
    if isinstance(node, exp.Anonymous) and node.name.upper() == "SYSUTCDATETIME":
        return exp.CurrentTimestamp()
    return node


@dataclass
class SqlServer:
    """The stand-in, which listens on loopback."""

    postgres: Postgres
    database: str
    tls: ssl.SSLContext | None = None
    ends_before: int | None = None
    """After how many statements the server ends the connection."""
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def url(self) -> str:
        port = self.listener.getsockname()[1]
        return f"mssql://lake:s3cret%20p%40ss@127.0.0.1:{port}/{self.database}"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=_serve, args=(self, client), daemon=True).start()


@contextmanager
def running_sql_server(postgres: Postgres, database: str, tls: ssl.SSLContext | None = None) -> Iterator[SqlServer]:
    """Run the stand-in over a database."""
    server = SqlServer(postgres, database, tls)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        with suppress(OSError):
            server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()


def _serve(server: SqlServer, client: socket.socket) -> None:
    with client, suppress(OSError), server.postgres.connect(server.database) as connection:
        try:
            _Session(server, client, connection).run()
        finally:
            connection.close()  # a transaction that was not committed is rolled back


class _EncryptedStream:
    """The connection after a handshake, whose messages are within those of the first exchange."""

    def __init__(self, client: socket.socket, context: ssl.SSLContext) -> None:
        self._client = client
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_side=True)
        stream = client.makefile("rb", buffering=0)
        is_complete = False
        while not is_complete:
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                is_complete = True
            if data := self._sent.read():
                client.sendall(tds.packets(data, tds.PRELOGIN))
            if not is_complete:
                _, data = tds.read_message(stream.read) or (0, b"")
                self._received.write(data)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self._tls.read(size - len(data))
            except ssl.SSLWantReadError:
                self._received.write(part := self._client.recv(65_536))
            else:
                data += part
            if not part:
                break
        return data

    def send(self, data: bytes) -> None:
        self._tls.write(data)
        self._client.sendall(self._sent.read())


class _Session:
    def __init__(self, server: SqlServer, client: socket.socket, connection: "psycopg.Connection[Any]") -> None:
        self._server, self._client, self._connection = server, client, connection
        self._loaded = ""

    def run(self) -> None:
        self._connection.execute("SET TimeZone = 'UTC'")
        receive: Callable[[int], Any] = self._client.makefile("rb", buffering=0).read
        send: Callable[[bytes], Any] = self._client.sendall
        assert tds.read_message(receive)
        send(tds.packets(tds.prelogin(1 if self._server.tls else 2)))
        if self._server.tls:
            stream = _EncryptedStream(self._client, self._server.tls)
            receive, send = stream.read, stream.send
        while message := tds.read_message(receive):
            answer = self._answer(*message)
            if answer is None:
                return
            send(tds.packets(answer))

    def _answer(self, type_: int, data: bytes) -> bytes | None:
        reader = tds.Reader(data)
        if type_ == tds.LOGIN:
            is_known = _obfuscated(PASSWORD) in data
            return (
                tds.login_answer(self._server.database)
                if is_known
                else tds.error(18456, "Login failed for user 'lake'.")
            )
        if type_ == tds.BULK:
            return self._guarded(lambda: self._load(*reader.loaded_rows()), tds.end_of_answer())
        assert type_ in (tds.BATCH, tds.RPC), "the client cancels a statement"
        reader.skip_headers()
        if type_ == tds.BATCH:
            statement = reader.rest().decode("utf-16-le")
            return self._guarded(lambda: self._run(statement, {}), tds.end_of_answer())
        assert (reader.number(2), reader.number(2)) == (0xFFFF, 10), "not sp_executesql"
        reader.number(2)
        (_, statement), _, *values = reader.parameters()
        named_values = {name.removeprefix("@"): value for name, value in values}
        return self._guarded(lambda: self._run(statement, named_values), tds.end_of_procedure())

    def _guarded(self, act: Callable[[], bytes], end: bytes) -> bytes | None:
        if self._server.ends_before is not None:
            if self._server.ends_before == 0:
                return None
            self._server.ends_before -= 1
        try:
            return act() + end
        except psycopg.errors.LockNotAvailable:
            return tds.error(1222, "Lock request time out period exceeded.")
        except psycopg.Error as error:  # after a result, as with a trigger that fails
            return tds.result([""], [(1,)]) + tds.error(50000, str(error))

    def _run(self, statement: str, values: dict[str, Any]) -> bytes:
        if "sp_getapplock" in statement:
            return self._lock(*values.values())
        if statement.startswith("INSERT BULK "):
            self._loaded = statement
            return b""
        return self._run_translated(statement, values)

    def _run_translated(self, statement: str, values: dict[str, Any]) -> bytes:
        if statement.startswith("SELECT OBJECT_ID"):
            names = [_in_quotes(name) for name in values.values()]
            return self._result("SELECT to_regclass(%s)::bigint, to_regclass(%s)::bigint", names)
        if "FROM sys.columns" in statement:
            return self._columns(*values.values())
        assert statement.endswith(_COUNT) or statement.startswith("SELECT "), statement
        text = statement.removesuffix(_COUNT)
        if match := re.fullmatch(r"SET NOCOUNT ON; SET XACT_ABORT ON; SET LOCK_TIMEOUT (\d+); BEGIN TRANSACTION", text):
            return self._result(f"BEGIN; SET LOCAL lock_timeout = {match[1]}", None)
        if text == "COMMIT TRANSACTION":
            return self._result("COMMIT", None)
        if text.startswith(GUARD):
            delete, insert = text.removeprefix(GUARD).split("; ")
            self._connection.execute(in_postgres(delete).encode(), values)
            text = insert
        return self._result(in_postgres(text), values)

    def _result(self, query: str, values: Any) -> bytes:
        cursor = self._connection.execute(query.encode(), values)
        if cursor.description:
            return tds.result([column.name for column in cursor.description], cursor.fetchall())
        return tds.result([""], [(max(cursor.rowcount, 0),)])

    def _columns(self, name: str) -> bytes:
        query = (
            "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale,"
            " datetime_precision FROM information_schema.columns WHERE table_schema || '.' || table_name = %s"
        )
        rows = []
        plain_name = name.strip("[]").replace("].[", ".").replace("]]", "]")
        for column, kind, length, precision, scale, of_time in self._connection.execute(query, [plain_name]):
            type_ = _TYPES[kind]
            size = -1 if length is None and type_.startswith(("n", "v")) else 2 * (length or 0)
            rows.append((column, type_, size, precision or 0, (of_time if "time" in type_ else scale) or 0))
        return tds.result(["name", "type", "size", "precision", "scale"], rows)

    def _lock(self, resource: str) -> bytes:
        try:
            with self._connection.transaction():
                self._connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [resource])
        except psycopg.errors.LockNotAvailable:
            return tds.result([""], [(-1,)])
        return tds.result([""], [(0,)])

    def _load(self, names: list[str], rows: list[tuple[Any, ...]]) -> bytes:
        match = re.match(r"INSERT BULK (\S+?)\(", self._loaded)
        assert match, self._loaded
        table = _in_quotes(match[1].replace("[#lakehouse_stage]", _STAGE))
        columns = ", ".join(f'"{name}"' for name in names)
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)
        return b""


def _in_quotes(name: str) -> str:
    """A quoted name of SQL Server as PostgreSQL quotes it."""
    parts = (part.replace("]]", "]").replace('"', '""') for part in name[1:-1].split("].["))
    return ".".join(f'"{part}"' for part in parts)


def _obfuscated(password: str) -> bytes:
    """A password as a client sends it."""
    return bytes(((byte << 4 | byte >> 4) & 0xFF) ^ 0xA5 for byte in password.encode("utf-16-le"))
