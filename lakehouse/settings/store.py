"""The place of tables and their files: a local disk or an object store. No other module decides which."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lakehouse.errors import SetupError

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_FILE_SCHEME = "file:"
# limits for an object store that does not answer; by default deltalake retries for three minutes
_PATIENCE = {"timeout": "10s", "connect_timeout": "3s", "max_retries": "3", "retry_timeout": "15s"}


@dataclass(frozen=True)
class Store:
    """The place of all tables, of one table or of a file, given as a path or a URI."""

    uri: str

    @property
    def is_path(self) -> bool:
        """Whether ``uri`` is a path: then files are read, and small batches written, without Spark."""
        return "://" not in self.uri and not self.uri.startswith(_FILE_SCHEME)

    @property
    def folder(self) -> Path | None:
        """The folder on a local disk, also if a ``file:`` URI names it; ``None`` for an object store."""
        if self.is_path:
            return Path(self.uri)
        return Path(unquote(urlsplit(self.uri).path)) if self.uri.startswith(_FILE_SCHEME) else None

    @property
    def bucket(self) -> str | None:
        """The bucket of a store with the protocol of S3; ``None`` for another store, and for a disk."""
        address = urlsplit(self.uri)
        return address.netloc if address.scheme in ("s3", "s3a") else None

    @property
    def duckdb_uri(self) -> str:
        """The address for DuckDB, which does not know Spark's name of the protocol of S3."""
        return f"s3://{self.uri.removeprefix('s3a://')}" if self.uri.startswith("s3a://") else self.uri

    @property
    def lock(self) -> Path | None:
        """The lock file of the table in this folder; ``None`` for an object store."""
        return self.folder.parent / ".locks" / self.folder.name if self.folder else None

    @property
    def options(self) -> dict[str, str] | None:
        """The storage options of deltalake for an object store; ``None`` for a local disk."""
        return dict(_PATIENCE) if self.folder is None else None


class Endpoint(NamedTuple):
    """The address of a store with the protocol of S3 other than AWS, and whether its paths have the bucket."""

    url: str
    path_style: bool


def s3_endpoint() -> Endpoint | None:
    """Return the endpoint of the variables ``AWS_*`` now, or ``None`` for AWS itself.

    Raises ``SetupError`` if it is not an address.
    """
    name = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
    if name is None:
        return None
    if not os.environ[name].startswith(("http://", "https://")):
        raise SetupError(f"{name} is not the address of a store", action=f"Write {name}=https://host:port.")
    return Endpoint(os.environ[name], os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() != "true")
