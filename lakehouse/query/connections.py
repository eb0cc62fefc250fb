"""Connections of DuckDB that read Delta tables: the extension, interrupts, and the meaning of errors."""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import duckdb

from lakehouse.errors import LakehouseError, QueryError, SetupError, TableError
from lakehouse.errors.causes import in_time
from lakehouse.ledger.versions import TableVersion
from lakehouse.settings import Settings
from lakehouse.settings.store import Store

T = TypeVar("T")

SPILL = "spill-"
"""The start of the name of a folder for rows that do not fit into memory."""
_OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
# httpfs copies the variables into these settings, which a query can read
_COPIED_SETTINGS = ("s3_access_key_id", "s3_secret_access_key", "s3_session_token")
_STORE_EXTENSIONS = {"s3": "httpfs", "azure": "azure"}
_SPILL_ROOTS = set[Path]()  # of this process
_MISSING_FILE = re.compile(r"No such file|\b404\b|[Nn]ot [Ff]ound|BlobNotFound")


def connect(settings: Settings, *, reads_tables: bool = True) -> duckdb.DuckDBPyConnection:
    """Open a connection that reads Delta tables, downloads no extension and has its times in UTC.

    One that reads no tables opens in a tenth of the time.

    What does not fit into memory goes into a folder of its own, which DuckDB creates then, and removes at the end: in
    the home, or in the folder of the system for such files if there is no home, or it may only be read. If a signal
    ends the process, the folders of its connections are removed too.
    """
    home = settings.home_folder
    root = home if home.is_dir() and os.access(home, os.W_OK) else Path(tempfile.gettempdir())
    _SPILL_ROOTS.add(root)
    spill = root / f"{SPILL}{uuid4().hex}-{os.getpid()}"
    connection = duckdb.connect(":memory:", config={**_OFFLINE, "temp_directory": str(spill)})
    if reads_tables:
        load_extensions(connection, settings.tables_root)
        for name in _COPIED_SETTINGS if settings.store.kind == "s3" else ():
            run_statement(connection, f"SET GLOBAL {name} = ''")
    run_statement(connection, "SET TimeZone = 'UTC'")
    # after two seconds, DuckDB would print its progress among the rows (seen)
    run_statement(connection, "SET enable_progress_bar = false")
    return connection


@atexit.register
def _remove_spills() -> None:
    for root in _SPILL_ROOTS:
        for spill in root.glob(f"{SPILL}*-{os.getpid()}"):
            shutil.rmtree(spill, ignore_errors=True)


def load_extensions(connection: duckdb.DuckDBPyConnection, uri: str) -> None:
    """Load what reads Delta tables at an address, also in an object store, and give it the present keys."""
    _load(connection, "delta", "Reinstall lakehouse (in its repository: make install).")
    if kind := Store(uri).kind:
        _load(connection, _STORE_EXTENSIONS[kind], f"Install it: pip install 'dagster-lakehouse[{kind}]'.")
        _trust_authorities(connection, kind)
        renew_secret(connection, uri)


def _trust_authorities(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Let an extension trust the authorities that the system trusts, or those of SSL_CERT_FILE, as other clients do."""
    file = os.environ.get("SSL_CERT_FILE")
    if kind == "azure":
        # the default one looks for a list of authorities where only some systems have it
        run_statement(connection, "SET GLOBAL azure_transport_option_type = 'curl'")
        os.environ.update({"CURL_CA_INFO": file} if file else {})
    elif file:
        run_statement(connection, f"SET GLOBAL ca_cert_file = {quoted_text(file)}")


def renew_secret(connection: duckdb.DuckDBPyConnection, uri: str) -> duckdb.DuckDBPyConnection:
    """Give a connection the present keys of the store at an address, if it is one; return the connection."""
    store = Store(uri)
    if store.bucket is None:
        return connection
    access = store.access.with_keys()
    if store.kind == "azure":
        _prepare_for_azure(connection, store)
    values = access.duckdb_secret.items()
    options = "".join(f", {name} {value if isinstance(value, bool) else quoted_text(value)}" for name, value in values)
    name, scope = quoted_name(f"lakehouse {store.bucket}"), quoted_text(store.duckdb_bucket)
    try:
        run_statement(connection, f"CREATE OR REPLACE SECRET {name} (TYPE {store.kind}, SCOPE {scope}{options})")
    except duckdb.Error:  # its text could have the keys
        raise SetupError("DuckDB refuses the keys or the address of the object store", where=uri) from None
    return connection


def _prepare_for_azure(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """Name a server of Azurite to DuckDB's Delta, and refuse a second account, which its addresses do not name."""
    if store.access.endpoint:
        os.environ["AZURITE_BLOB_STORAGE_URL"] = store.access.endpoint.rpartition("/")[0]
    name, other_secrets = f"lakehouse {store.bucket}", "SELECT 1 FROM duckdb_secrets() WHERE scope = [?] AND name <> ?"
    if connection.execute(other_secrets, [store.duckdb_bucket, name]).fetchone():
        raise SetupError(
            "This connection of DuckDB already reads a container of this name in another account",
            where=store.uri,
            action="Open another connection for it.",
        )


def _load(connection: duckdb.DuckDBPyConnection, name: str, action: str) -> None:
    """Load an extension from the Python package that contains it: nothing is downloaded or installed."""
    package = find_spec(f"duckdb_extension_{name}")
    folder = Path(package.origin).parent if package and package.origin else Path()
    file = folder / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    if not file.is_file():
        raise SetupError(f"DuckDB's extension {name} is missing", action=action)
    run_statement(connection, f"LOAD {quoted_text(str(file))}")


def interruptible(connection: duckdb.DuckDBPyConnection, call: Callable[[], T]) -> T:
    """Return what a call of DuckDB returns; a signal meanwhile interrupts the query.

    On the main thread, DuckDB would not notice it while it fetches rows, and elsewhere report it as its own error.
    """
    try:
        return in_time(call)
    except KeyboardInterrupt:
        connection.interrupt()
        raise


def run_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Run a statement, which a signal interrupts; its rows are fetched from the connection."""
    interruptible(connection, lambda: connection.execute(sql))


def lock_connection(connection: duckdb.DuckDBPyConnection, root: str) -> None:
    """From now on: no file outside the root, no changes of settings."""
    run_statement(connection, f"SET allowed_directories = [{quoted_text(Store(root).duckdb_uri)}]")
    run_statement(connection, "SET enable_external_access = false")
    run_statement(connection, "SET lock_configuration = true")


def scan_sql(version: TableVersion) -> str:
    """SQL for the rows of one version of a table."""
    return f"SELECT * FROM delta_scan({quoted_text(Store(version.uri).duckdb_uri)}, version := {version.number})"


def missing_files(error: duckdb.Error, versions: Sequence[TableVersion]) -> LakehouseError | None:
    """Return the error for a version whose files are gone; ``None`` for any other error."""
    if not _MISSING_FILE.search(str(error)):
        return None
    version = next(
        (
            version
            for version in versions
            if str(Store(version.uri).folder or Store(version.uri).duckdb_uri) in str(error)
        ),
        None,
    )
    if version is None:
        return None
    return TableError(
        f"Files of version {version.number} of {version.table} are gone: maintenance or another VACUUM removed them",
        where=version.uri,
        action="Choose a newer version. The declared retention says for how long files of earlier versions stay.",
    )


def refusal(error: duckdb.Error, action: str, problem: str = "The query cannot be run") -> QueryError:
    """Quote DuckDB's message without its type, and its hint; the rest points into the text of the query."""
    message, _, details = str(error).strip().partition("\n")
    hint = (
        ""
        if re.match(r"\n|\t|LINE |.*\"(pg_|duckdb_|sqlite_|pragma_)", details)
        else details.partition("\n")[0].strip()
    )
    hint_sentence = hint if hint.endswith(("?", ".")) or not hint else f"{hint}."
    text = re.sub(r"^\w+( \w+)? Error: ", "", message).rstrip("!. ")
    return QueryError(f"{problem}: {text}", action=f"{hint_sentence} {action}".strip())


QUOTES = 'A column whose name is a word of SQL needs quotes, such as "at".'


def view_refusal(error: duckdb.Error, action: str, problem: str) -> QueryError:
    """Return an error of DuckDB about the query of a view, with the line of its text."""
    query_error = refusal(error, action, problem)
    match = re.search(r"^LINE (\d+): ", str(error), re.MULTILINE)
    is_syntax = str(error).startswith("Parser Error")
    place = f", in line {match[1]} of sql=" if match and int(match[1]) > 1 else ""
    return QueryError(
        f"{query_error.what}{place}", action=f"{query_error.action} {QUOTES}" if is_syntax else query_error.action
    )


def quoted_name(name: str) -> str:
    """Return a name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"
