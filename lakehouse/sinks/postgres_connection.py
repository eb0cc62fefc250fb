"""Opens connections to PostgreSQL, and says what its errors mean without showing a secret."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from os import environ
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lakehouse.errors import LakehouseError, SetupError
from lakehouse.settings.shapes import require_clear_database_url

if TYPE_CHECKING:
    from psycopg import Connection

SECONDS_TO_CONNECT = 10
_LIMITS = {"connect_timeout": SECONDS_TO_CONNECT, "tcp_user_timeout": 60_000, "keepalives_idle": 30}
_SECRETS = ("password", "sslpassword")


def postgres_driver() -> ModuleType:
    """Return the driver. ``SetupError`` if its package is missing."""
    try:
        import psycopg.conninfo  # noqa: PLC0415 - an optional package
    except ImportError:
        raise SetupError(
            "The package psycopg is missing, which connects to PostgreSQL",
            action="Install it: pip install 'dagster-lakehouse[postgres]'.",
        ) from None
    return psycopg


def require_readable_url(psycopg: ModuleType, url: str) -> None:
    """Refuse a URL that the driver cannot parse, with a message that quotes nothing of it."""
    try:
        psycopg.conninfo.conninfo_to_dict(url)
        require_clear_database_url(url)
    except (psycopg.Error, ValueError):
        action = "Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX: @ as %40."
        raise LakehouseError("The URL of the database cannot be read", action=action) from None


def hide_secrets(psycopg: ModuleType, url: str, error: Exception) -> str:
    """Return the message of an error of the driver without the passwords of the URL, which it may quote."""
    message = " ".join(str(error).split()) or type(error).__name__
    parts = psycopg.conninfo.conninfo_to_dict(url)
    for secret in (parts[name] for name in _SECRETS if parts.get(name)):
        message = message.replace(secret, "***")
    return message


@contextmanager
def connect_verified(psycopg: ModuleType, url: str) -> "Iterator[Connection[Any]]":
    """Open a connection whose transaction is committed at the end, or rolled back after an error.

    To another machine it is encrypted, and the certificate of the server is verified with the authorities of
    ``SSL_CERT_FILE`` or those that Python trusts, unless the URL has another ``sslmode``.
    """
    parts = psycopg.conninfo.conninfo_to_dict(url)
    options: dict[str, Any] = {**_LIMITS, "application_name": "lakehouse"}
    if "sslmode" not in parts and not all(is_local(str(parts.get(name) or "")) for name in ("host", "hostaddr")):
        options["sslmode"] = "verify-full"
        options |= {} if "sslrootcert" in parts else {"sslrootcert": authorities()}
    options = {name: value for name, value in options.items() if name not in parts}
    with psycopg.connect(url, **options) as connection:
        yield connection


def authorities() -> str:
    """The file of the authorities that certificates of servers are verified with."""
    from requests.utils import DEFAULT_CA_BUNDLE_PATH  # noqa: PLC0415 - slow to import

    return environ.get("SSL_CERT_FILE") or str(DEFAULT_CA_BUNDLE_PATH)


def is_local(hosts: str) -> bool:
    """Return whether all hosts are this machine: loopback, or the folder of a socket."""
    return all(
        not host
        or host.startswith(("/", "@"))
        or host == "localhost"
        or (is_address(host) and ip_address(host).is_loopback)
        for host in hosts.split(",")
    )


def is_address(host: str) -> bool:
    """Return whether a host is an address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
