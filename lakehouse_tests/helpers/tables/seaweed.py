"""A real object store with the protocol of S3 on loopback: a server of SeaweedFS that a test starts."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyarrow.fs import FileSelector, S3FileSystem

from lakehouse.local.embedded import draw_port
from lakehouse.local.process import Child
from lakehouse_tests.helpers.tables.stores import BUCKET, environment
from lakehouse_tests.helpers.waiting import wait_until

_IDENTITY = {
    "name": "tests",
    "credentials": [{"accessKey": "key", "secretKey": "secret"}],
    "actions": ["Admin", "Read", "Write", "List", "Tagging"],
}
_SERVERS = ("master", "volume", "filer", "s3")


class SeaweedStore:
    """A running store with one bucket; it ends with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = draw_port()
        self._child: Child | None = None

    @property
    def _file_system(self) -> S3FileSystem:
        address = f"127.0.0.1:{self.port}"
        return S3FileSystem(
            access_key="key",
            secret_key="secret",
            endpoint_override=address,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def start(self) -> None:
        (self.folder / "s3.json").write_text(json.dumps({"identities": [_IDENTITY]}))
        (self.folder / "data").mkdir(exist_ok=True)
        ports = [f"-{server}.port.grpc={draw_port()}" for server in _SERVERS]
        ports += [f"-{server}.port={draw_port()}" for server in _SERVERS if server != "s3"]
        command = [str(Path(sys.executable).parent / "weed"), "server", f"-dir={self.folder / 'data'}"]
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.port={self.port}", *ports]
        command += [f"-s3.config={self.folder / 's3.json'}", "-volume.max=20"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64"]
        self._child = Child(command, self.folder / "server.log")
        assert wait_until(self._has_bucket, 60.0), (self.folder / "server.log").read_text()[-2000:]

    def stop(self) -> None:
        if self._child:
            self._child.kill()

    def put(self, path: str, content: bytes) -> None:
        """Write an object into the bucket."""
        with self._file_system.open_output_stream(f"{BUCKET}/{path}", compression=None) as stream:
            stream.write(content)

    def remove(self, path: str) -> None:
        self._file_system.delete_file(f"{BUCKET}/{path}")

    def _has_bucket(self) -> bool:
        try:
            self._file_system.create_dir(BUCKET)
            return bool(self._file_system.get_file_info(FileSelector(BUCKET)) is not None)
        except OSError:
            return False


@contextmanager
def running_store() -> Iterator[SeaweedStore]:
    """Provide a new store, in whose environment pyarrow and deltalake connect to it."""
    with TemporaryDirectory(prefix="lakehouse-store-") as folder:
        store = SeaweedStore(Path(folder))
        try:
            store.start()
            with environment(store.port):
                yield store
        finally:
            store.stop()
