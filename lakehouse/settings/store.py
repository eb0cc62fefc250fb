"""The place of tables and their files: a local disk or an object store. No other module decides which."""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore, from_url
from pydantic import SecretStr

from lakehouse.settings.azure_access import HOST, AzureAccess
from lakehouse.settings.store_access import Access, S3Access

if TYPE_CHECKING:
    from obstore.store import S3Config

_FILE_SCHEME = "file:"
_KINDS: dict[str, Literal["s3", "azure"]] = {"s3": "s3", "s3a": "s3", "abfs": "azure", "abfss": "azure"}
_CONTAINER = re.compile(rf"[a-z0-9][a-z0-9-]+@[a-z0-9]+{re.escape(HOST)}")
STORE_ADDRESSES = f"s3://BUCKET/... or abfss://CONTAINER@ACCOUNT{HOST}/..."
"""What an address of tables in an object store can be."""
# limits for an object store that does not answer; by default deltalake retries for three minutes
_PATIENCE = {"timeout": "10s", "connect_timeout": "3s", "max_retries": "3", "retry_timeout": "15s"}
_REASONS = {"TimedOut": "timed out", "InvalidCertificate": "the certificate of the store is not trusted"}
_COPIES = list[Path]()
_DECLARED = dict[str, dict[str, Any]]()  # what settings of this process say of a bucket


@dataclass(frozen=True)
class Store:
    """The place of all tables, of one table or of a file, given as a path or a URI."""

    uri: str

    @property
    def is_address(self) -> bool:
        """Whether ``uri`` is a URI and no path."""
        return "://" in self.uri or self.uri.startswith(_FILE_SCHEME)

    @property
    def is_relative(self) -> bool:
        """Whether ``uri`` is a path that depends on where it begins."""
        return not self.is_address and not Path(self.uri).is_absolute()

    @property
    def absolute(self) -> str:
        """The address without a slash at its end, or the path from the root of the disk with links followed."""
        return self.uri.rstrip("/") if self.is_address else str(Path(self.uri).resolve())

    @property
    def catalog_location(self) -> str:
        """The address in a catalog: one for all names of a place; only some of its readers know ``s3a``."""
        return f"file://{self.folder}" if self.folder else self.absolute.replace("s3a://", "s3://", 1)

    @property
    def folder(self) -> Path | None:
        """The folder on a local disk, also if a ``file:`` URI names it; ``None`` for an object store."""
        if not self.is_address:
            return Path(self.uri)
        return Path(unquote(urlsplit(self.uri).path)) if self.uri.startswith(_FILE_SCHEME) else None

    @property
    def kind(self) -> Literal["s3", "azure"] | None:
        """The protocol of an object store; ``None`` for a disk, and for a store that no test has shown to work."""
        address = urlsplit(self.uri)
        kind = _KINDS.get(self.uri.partition(":")[0]) if address.netloc else None
        return None if kind == "azure" and not _CONTAINER.fullmatch(address.netloc) else kind

    @property
    def bucket(self) -> str | None:
        """The bucket of S3, or CONTAINER@HOST of Azure; ``None`` for another store, and for a disk."""
        return urlsplit(self.uri).netloc if self.kind else None

    @property
    def duckdb_uri(self) -> str:
        """The address for DuckDB, which does not know each of Spark's names."""
        if self.kind == "azure":
            address = urlsplit(self.uri)
            return f"az://{address.username}{address.path}"
        return f"s3://{self.uri.removeprefix('s3a://')}" if self.uri.startswith("s3a://") else self.uri

    @property
    def duckdb_bucket(self) -> str:
        """The address of the whole bucket for DuckDB."""
        return "/".join([*self.duckdb_uri.split("/")[:3], ""])

    @property
    def access_class(self) -> type[Access]:
        """The kind of the access."""
        return {"s3": S3Access, "azure": AzureAccess}.get(self.kind or "", Access)

    @property
    def access(self) -> Access:
        """How the bucket is reached now; nothing for another store. What settings do not say, the environment does."""
        bucket = self.bucket or ""
        return self.access_class.of_environment(bucket).with_settings(_DECLARED.get(bucket, {}))

    @property
    def digest(self) -> str:
        """The name for what is kept about this place: the same for each name of the protocol."""
        uri = f"abfss://{self.uri.partition('://')[2]}" if self.kind == "azure" else self.duckdb_uri
        return sha256(f"{self.access.endpoint or ''} {uri}".encode()).hexdigest()[:32]

    def objects(self) -> ObjectStore:
        """The objects below this address, by their relative names."""
        return _objects(self.duckdb_uri if self.kind == "s3" else self.uri, self.access.with_keys())

    def read_end(self, path: str, size: int) -> bytes:
        """Read the last bytes of an object below this address; ``OSError`` if the store fails or has none."""
        with store_failures():
            objects = self.objects()
            if self.kind == "azure":  # which has no ranges that count from the end
                end = obstore.head(objects, path)["size"]
                return bytes(obstore.get_range(objects, path, start=max(0, end - size), end=end))
            return bytes(obstore.get(objects, path, options={"range": {"suffix": size}}).bytes())

    @property
    def lock(self) -> Path | None:
        """The lock file of the table in this folder; ``None`` for an object store."""
        return self.folder.parent / ".locks" / self.folder.name if self.folder else None

    @property
    def options(self) -> dict[str, str] | None:
        """The storage options of deltalake for an object store; ``None`` for a local disk."""
        if self.folder is not None:
            return None
        access = self.access.with_keys()
        return _PATIENCE | access.options | ({"allow_http": "true"} if access.is_unencrypted else {})


@contextmanager
def store_failures() -> Iterator[None]:
    """Raise failures of an object store as ``OSError``, without the trace that they carry."""
    try:
        yield
    except BaseError as error:
        message, _, source = str(error).partition("\n\nDebug source:")
        cause = re.search(r'message: "(?P<text>[^"]+)"|TimedOut|InvalidCertificate', source)
        reason = _REASONS.get(cause[0], cause["text"]) if cause else ""
        raise OSError(f"{message}: {reason}" if reason else message) from None


@lru_cache(maxsize=64)
def _objects(uri: str, access: Access) -> ObjectStore:
    return from_url(
        uri,
        config=cast("S3Config", access.options),
        # a large file may take minutes, but each part of an answer only seconds
        client_options={
            "allow_http": access.is_unencrypted,
            "timeout": "10min",
            "read_timeout": "10s",
            "connect_timeout": "3s",
        },
        retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=15)},
    )


def copies_folder() -> Path:
    """The folder for copies of what lies in object stores: in the home of the last settings, if it can be written."""
    for folder in _COPIES:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(folder, os.W_OK):
                return folder
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-logs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _COPIES.append(folder)
    return folder


def keep_copies_in(folder: Path) -> None:
    """Name the folder for copies of what lies in object stores."""
    _COPIES[:] = [folder]


def declare_access(bucket: str, values: Mapping[str, Any]) -> None:
    """Note what settings say of a bucket, for all that this process reads and writes there."""
    _DECLARED[bucket] = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in values.items()
    }
