"""A transaction in a database of SQL Server, under the lock of a target.

The driver loads rows within the transaction, and the temporary table is gone with the connection. Transactions begin
and end by statements, and each answer is read to its end: an error may come after a result.
"""

import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import md5
from types import ModuleType
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from lakehouse.declaration.sink import DatabaseTable, Sink
from lakehouse.errors import LakehouseError, LockedError, SetupError, TableError
from lakehouse.settings import Settings
from lakehouse.sinks.database_session import (
    PATIENCE,
    PROGRESS,
    REFUSED_ACTION,
    DatabaseSession,
    bracketed,
    table_of,
    url_of,
)
from lakehouse.sinks.postgres_connection import authorities, is_address, is_local

_PORT = 1433
_SECONDS_TO_CONNECT = 10
_SECONDS_TO_WAIT = 6 * 3_600  # for the answer to a statement, also if a server redirects to another connection
_SOCKET_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_USER_TIMEOUT": 60_000}  # the driver sets SO_KEEPALIVE
_SECONDS_TO_READ = 10  # while another run ends its transaction
_LOCK_TIMEOUT = 1222  # numbers of errors
_STAGE = "#lakehouse_stage"
_SESSION = "SET NOCOUNT ON; SET XACT_ABORT ON"
_LOCK = (
    "DECLARE @result int; EXEC @result = sp_getapplock @Resource = %(resource)s, @LockMode = 'Exclusive',"
    f" @LockOwner = 'Transaction', @LockTimeout = {PATIENCE * 1000}; SELECT @result"
)
# by OBJECT_ID: other queries of the catalog wait for every new table of the database
_COLUMNS = (
    "SELECT c.name, t.name, c.max_length, c.precision, c.scale FROM sys.columns AS c JOIN sys.types AS t"
    " ON t.user_type_id = c.system_type_id WHERE c.object_id = OBJECT_ID(%(name)s)"
)


class SqlServerSession(DatabaseSession):
    """A transaction in SQL Server."""

    def __init__(self, sink: Sink, pytds: ModuleType, connection: Any) -> None:
        super().__init__(sink)
        self._pytds = pytds
        self._connection = connection
        schema, _, name = table_of(sink).full_name.partition(".")
        self._names = [f"{bracketed(schema)}.{bracketed(part)}" for part in (name, PROGRESS)]

    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> int:
        """Run a statement; return the number of rows that it wrote or deleted."""
        *_, ((count,),) = self._results(f"{statement}; SELECT @@ROWCOUNT", values)
        return int(count)

    def rows(self, query: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self._results(query, values)[-1]

    def _results(self, text: str, values: Mapping[str, Any] | None = None) -> list[list[tuple[Any, ...]]]:
        """Return all results of a text. It is read to its end: an error may come after a result."""
        cursor = self._connection.cursor().execute(text, dict(values) if values else None)
        results = []
        while True:
            if cursor.description:
                results.append([*map(tuple, cursor.fetchall())])
            if not cursor.nextset():
                return results

    def find_progress(self) -> tuple[bool, tuple[Any, ...] | None]:
        """Find whether the target exists, and its row of the progress."""
        names = dict(zip(("name", "progress"), self._names, strict=True))
        ((target_id, progress_id),) = self.rows("SELECT OBJECT_ID(%(name)s), OBJECT_ID(%(progress)s)", names)
        columns = "[sink], [table_id], [version], [commit_id], [columns], [identity]"
        query = f"SELECT {columns} FROM {names['progress'].replace('%', '%%')} WHERE [target] = %(target)s"
        rows = self.rows(query, {"target": table_of(self.sink).full_name}) if progress_id else []
        if not rows:
            return target_id is not None, None
        *facts, stored_columns, identity = rows[0]
        return target_id is not None, (*facts, json.loads(stored_columns), json.loads(identity))

    def stored_types(self) -> Mapping[str, str]:
        """The columns that the target has now; none if it does not exist."""
        return {name: _type_text(*facts) for name, *facts in self.rows(_COLUMNS, {"name": self._names[0]})}

    def progress_value(self, names: Iterable[str]) -> Any:
        """Return the names as JSON."""
        return json.dumps([*names])

    def load(self, table: DatabaseTable | None, types: Mapping[str, str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Load rows into the target, or if it is ``None`` into the stage; ``types`` are those of their columns."""
        columns = [self._column(name, type_) for name, type_ in types.items()]
        schema, _, name = table.full_name.partition(".") if table else ("", "", _STAGE)
        cursor = self._connection.cursor()
        cursor.copy_to(table_or_view=name, schema=schema or None, columns=columns, tablock=True, data=rows)

    def _column(self, name: str, type_: str) -> Any:
        kinds = self._pytds.tds_types
        column = self._pytds.tds_base.Column(name, kinds.sql_type_by_declaration(type_))
        if isinstance(column.type, kinds.DecimalType):

            class Serializer(kinds.MsDecimalSerializer):  # type: ignore[misc, name-defined]
                """Writes a zero as a positive number: the driver would write one that databases do not have."""

                def write(self, writer: Any, value: Any) -> None:
                    if value is None or value:
                        return super().write(writer, value)  # type: ignore[no-any-return]
                    return writer.write(bytes([self.size, 1, *bytes(self.size - 1)]))  # type: ignore[no-any-return]

            serializer = Serializer(precision=column.type.precision, scale=column.type.scale)
            column.choose_serializer = lambda **_: serializer
        return column


def _type_text(type_: str, size: int, precision: int, scale: int) -> str:
    """Return the type of a column as sinks declare it."""
    if type_ in ("nvarchar", "varbinary"):
        return f"{type_}({'max' if size < 0 else size // 2 if type_ == 'nvarchar' else size})"
    if type_ == "decimal":
        return f"decimal({precision},{scale})"
    return f"{type_}({scale})" if type_ in ("datetime2", "datetimeoffset") else type_


@contextmanager
def open_sql_server(settings: Settings, sink: Sink, *, locked: bool) -> Iterator[SqlServerSession]:
    """Open a transaction in the database of a sink, which is committed at the end, or rolled back after an error.

    If it is to be ``locked``, it holds the lock of the target. Raises ``SettingsError`` if no setting names the
    database, ``SetupError`` without the package python-tds, ``LockedError`` if another run holds the lock for more than
    two minutes, and ``TableError`` if the database refuses or does not respond.
    """
    address, seconds = urlsplit(url_of(settings, sink)), PATIENCE if locked else _SECONDS_TO_READ
    pytds = _driver()
    try:
        with closing(_connect(pytds, address)) as connection:
            session = SqlServerSession(sink, pytds, connection)
            session.run(f"{_SESSION}; SET LOCK_TIMEOUT {seconds * 1000}; BEGIN TRANSACTION")
            if locked:
                # a database may take names in another case for the same
                resource = md5(table_of(sink).full_name.casefold().encode(), usedforsecurity=False).hexdigest()
                if session.rows(_LOCK, {"resource": f"lakehouse {resource}"})[0][0] < 0:
                    raise _lock_error(sink, seconds)
            yield session
            session.run("COMMIT TRANSACTION")
    except (pytds.Error, OSError, _tls_error()) as error:
        if getattr(error, "number", None) == _LOCK_TIMEOUT:
            raise _lock_error(sink, seconds) from None
        raise _error_of(sink, address, error) from None


def _lock_error(sink: Sink, seconds: int) -> LockedError:
    message = f"Sink {sink.name} was locked for {seconds} seconds: another transaction holds its target"
    return LockedError(message, where=sink.to.place, action="Run it again when that is done.")


def _error_of(sink: Sink, address: SplitResult, error: Exception) -> TableError:
    error = error.__cause__ if isinstance(error.__cause__, Exception) else error  # of a login that took too long
    message = (isinstance(error, OSError) and error.strerror) or next(iter(error.args), "")
    text = " ".join(str(message).split()) or type(error).__name__
    for secret in filter(None, (address.password, unquote(address.password or ""))):
        text = text.replace(secret, "***")
    return TableError(f"Sink {sink.name}: the database refused: {text}", where=sink.to.place, action=REFUSED_ACTION)


def _driver() -> ModuleType:
    """Return the driver, which verifies names by a library: its own way needs what pyopenssl no longer has."""
    try:
        import OpenSSL  # noqa: F401, PLC0415 - an optional package
        import pytds.tls  # noqa: PLC0415
        import service_identity  # noqa: F401, PLC0415
    except ImportError:
        raise SetupError(
            "The package python-tds, pyopenssl or service-identity is missing, which connect to SQL Server",
            action="Install them: pip install 'dagster-lakehouse[sqlserver]'.",
        ) from None
    pytds.tls.validate_host = _has_name
    return cast(ModuleType, pytds)


def _has_name(cert: Any, name: bytes) -> bool:
    """Whether a certificate is for a host."""
    from service_identity import CertificateError, VerificationError  # noqa: PLC0415 - an optional package
    from service_identity.cryptography import (  # noqa: PLC0415
        verify_certificate_hostname,
        verify_certificate_ip_address,
    )

    host = name.decode()
    verify = verify_certificate_ip_address if is_address(host) else verify_certificate_hostname
    try:
        verify(cert.to_cryptography(), host)
    except (CertificateError, VerificationError):
        return False
    return True


def _tls_error() -> type[Exception]:
    from OpenSSL.SSL import Error  # noqa: PLC0415 - an optional package

    return Error


def _connect(pytds: ModuleType, address: SplitResult) -> Any:
    """Connect; to another machine with encryption, and the server is verified, unless the URL says ``encrypt=no``."""
    host, port = address.hostname or "", address.port or _PORT
    options = dict(parse_qsl(address.query, keep_blank_values=True))
    if options.keys() - {"encrypt", "cafile"} or options.get("encrypt", "no") not in ("yes", "no"):
        action = "After the name of the database, write ?encrypt=yes, ?encrypt=no or ?cafile=FILE."
        raise LakehouseError("The URL of the database has an option that is not known", action=action)
    encrypts = options.get("encrypt", "no" if is_local(host) else "yes") == "yes" or "cafile" in options
    connection = socket.create_connection((host, port), _SECONDS_TO_CONNECT)
    for name, value in _SOCKET_OPTIONS.items():
        if number := getattr(socket, name, None):  # not every system has each
            connection.setsockopt(socket.IPPROTO_TCP, number, value)
    return pytds.connect(
        dsn=host,
        port=port,
        database=unquote(address.path.strip("/")),
        user=unquote(address.username or ""),
        password=unquote(address.password or ""),
        appname="lakehouse",
        autocommit=True,
        timeout=_SECONDS_TO_WAIT,
        login_timeout=_SECONDS_TO_CONNECT,
        disable_connect_retry=True,
        sock=connection,
        cafile=(options.get("cafile") or authorities()) if encrypts else None,
    )
