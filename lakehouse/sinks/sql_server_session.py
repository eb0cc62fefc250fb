"""A transaction in a database of SQL Server, under the lock of a target.

The driver loads rows within the transaction, and the temporary table is gone with the connection. Transactions begin
and end by statements: if the server ended one, the commit fails.
"""

import json
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import md5
from types import ModuleType
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from lakehouse.declaration.sink import DatabaseTable, Sink
from lakehouse.errors import LakehouseError, LockedError, SetupError, TableError
from lakehouse.settings import Settings
from lakehouse.sinks.database_session import PATIENCE, PROGRESS, DatabaseSession, table_of, url_of
from lakehouse.sinks.postgres_connection import authorities, is_address, is_local

_PORT = 1433
_SECONDS_TO_CONNECT = 10
_SECONDS_TO_READ = 10  # while another run ends its transaction
_LOCK_TIMEOUT = 1222  # numbers of errors
_STAGE = "#lakehouse_stage"
_LOCK = (
    "DECLARE @result int; EXEC @result = sp_getapplock @Resource = %s, @LockMode = 'Exclusive',"
    f" @LockOwner = 'Transaction', @LockTimeout = {PATIENCE * 1000}; SELECT @result"
)
_FIND = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN (%s, %s)"
_COLUMNS = "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"


class SqlServerSession(DatabaseSession):
    """A transaction in SQL Server."""

    def __init__(self, sink: Sink, pytds: ModuleType, connection: Any) -> None:
        super().__init__(sink)
        self._pytds = pytds
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Run a statement; return the number of rows that it wrote or deleted."""
        parameters = dict(values) if isinstance(values, Mapping) else tuple(values)
        return int(self._connection.cursor().execute(statement, parameters or None).rowcount)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return [*map(tuple, self._connection.cursor().execute(query, tuple(values) or None).fetchall())]

    def find_progress(self) -> tuple[bool, tuple[Any, ...] | None]:
        """Find whether the target exists, and its row of the progress."""
        schema, _, name = table_of(self.sink).full_name.partition(".")
        found_names = {table for (table,) in self.rows(_FIND, [schema, name, PROGRESS])}
        place = f"[{schema.replace(']', ']]')}].[{PROGRESS}]".replace("%", "%%")
        names = "[sink], [table_id], [version], [commit_id], [columns], [identity]"
        query = f"SELECT {names} FROM {place} WHERE [target] = %s"
        rows = self.rows(query, [table_of(self.sink).full_name]) if PROGRESS in found_names else []
        if not rows:
            return name in found_names, None
        *facts, columns, identity = rows[0]
        return name in found_names, (*facts, json.loads(columns), json.loads(identity))

    def stored_types(self) -> Mapping[str, str]:
        """The columns that the target has now, with the types by which the sink made them."""
        schema, _, name = table_of(self.sink).full_name.partition(".")
        columns = self.progress.columns if self.progress else {}
        made_types = dict(columns) if isinstance(columns, Mapping) else {}
        return {column: made_types.get(column, "") for (column,) in self.rows(_COLUMNS, [schema, name])}

    def progress_value(self, names: Mapping[str, str] | Sequence[str]) -> Any:
        """Return the types of columns, or names, as JSON."""
        return json.dumps(names)

    def load(self, table: DatabaseTable | None, types: Mapping[str, str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Load rows into the target, or if it is ``None`` into the stage; ``types`` are those of their columns."""
        base, kinds = self._pytds.tds_base, self._pytds.tds_types
        columns = [base.Column(name, kinds.sql_type_by_declaration(type_)) for name, type_ in types.items()]
        schema, _, name = table.full_name.partition(".") if table else ("", "", _STAGE)
        cursor = self._connection.cursor()
        cursor.copy_to(table_or_view=name, schema=schema or None, columns=columns, tablock=True, data=rows)


@contextmanager
def open_sql_server(settings: Settings, sink: Sink, *, locked: bool) -> Iterator[SqlServerSession]:
    """Open a transaction in the database of a sink, which is committed at the end, or rolled back after an error.

    If it is to be ``locked``, it holds the lock of the target. Raises ``SettingsError`` if no setting names the
    database, ``SetupError`` without the package python-tds, ``LockedError`` if another run holds the lock for more than
    two minutes, and ``TableError`` if the database refuses or does not respond.
    """
    address, place = urlsplit(url_of(settings, sink)), sink.to.place
    pytds = _driver()
    try:
        with closing(_connect(pytds, address)) as connection:
            session = SqlServerSession(sink, pytds, connection)
            seconds = PATIENCE if locked else _SECONDS_TO_READ
            session.run(f"SET XACT_ABORT ON; SET LOCK_TIMEOUT {seconds * 1000}; BEGIN TRANSACTION")
            if locked:
                _lock(session)
            yield session
            session.run("COMMIT TRANSACTION")
    except pytds.Error as error:
        if getattr(error, "number", None) == _LOCK_TIMEOUT:
            raise _lock_error(sink) from None
        raise _error_of(sink, address, error, place) from None
    except (OSError, _tls_error()) as error:
        raise _error_of(sink, address, error, place) from None


def _lock(session: SqlServerSession) -> None:
    resource = md5(table_of(session.sink).full_name.encode(), usedforsecurity=False).hexdigest()
    ((result,),) = session.rows(_LOCK, [f"lakehouse {resource}"])
    if result < 0:
        raise _lock_error(session.sink)


def _lock_error(sink: Sink) -> LockedError:
    message = f"Sink {sink.name} was locked for {PATIENCE} seconds: another transaction holds its target"
    return LockedError(message, where=sink.to.place, action="Run it again when that is done.")


def _error_of(sink: Sink, address: SplitResult, error: Exception, place: str) -> TableError:
    error = error.__cause__ if isinstance(error.__cause__, Exception) else error  # of a login that took too long
    text = " ".join(str(error.args[0] if error.args else "").split()) or type(error).__name__
    for secret in filter(None, (address.password, unquote(address.password or ""))):
        text = text.replace(secret, "***")
    action = "Nothing was written. Correct that, and run it again."
    return TableError(f"Sink {sink.name}: the database refused: {text}", where=place, action=action)


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
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
    return pytds.connect(
        dsn=host,
        port=port,
        database=unquote(address.path.strip("/")),
        user=unquote(address.username or ""),
        password=unquote(address.password or ""),
        appname="lakehouse",
        autocommit=True,
        login_timeout=_SECONDS_TO_CONNECT,
        disable_connect_retry=True,
        sock=connection,
        cafile=(options.get("cafile") or authorities()) if encrypts else None,
    )
