"""A real object store with the protocol of S3 on loopback: a server of SeaweedFS that a test starts."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
LIMITED_KEY, LIMITED_SECRET = "limited", "limited-secret"  # keys that have the rights of a policy alone
_PROBE = "probe-of-the-tests"
_SERVERS = ("master", "volume", "filer", "s3")


def _draw_ports(count: int) -> list[int]:
    """Return different ports: each is free, but nothing listens on it yet, so that it may be drawn again."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(draw_port())
    return [*ports]


class SeaweedStore:
    """A running store with one bucket; it ends with the test. With a policy of AWS, it has other keys for it, too."""

    ending = "killed"
    root = f"s3://{BUCKET}"
    environment = staticmethod(environment)

    def __init__(self, folder: Path, policy: str = "") -> None:
        self.folder = folder
        self._policy = policy
        self.port, *ports = _draw_ports(2 * len(_SERVERS))
        options = [*(f"{server}.port.grpc" for server in _SERVERS), *(f"{server}.port" for server in _SERVERS[:-1])]
        self._ports = [f"-{option}={port}" for option, port in zip(options, ports, strict=True)]
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

    @property
    def _identities(self) -> dict[str, Any]:
        if not self._policy:
            return {"identities": [_IDENTITY]}
        keys = [{"accessKey": LIMITED_KEY, "secretKey": LIMITED_SECRET}]
        limited_identity = {"name": "limited", "credentials": keys, "policyNames": ["limited"]}
        policies = [{"name": "limited", "content": self._policy}]
        return {"identities": [_IDENTITY, limited_identity], "policies": policies}

    def start(self) -> None:
        """Start it, or start it again with the objects that it had."""
        (self.folder / "s3.json").write_text(json.dumps(self._identities))
        (self.folder / "data").mkdir(exist_ok=True)
        command = [str(Path(sys.executable).parent / "weed"), "server", f"-dir={self.folder / 'data'}"]
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.port={self.port}", *self._ports]
        command += [f"-s3.config={self.folder / 's3.json'}", "-volume.max=20"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64"]
        self._child = Child(command, self.folder / "server.log")
        assert wait_until(self._has_bucket, 60.0), (self.folder / "server.log").read_text()[-2000:]

    def stop(self) -> None:
        """Kill it; nothing that it answered for is lost."""
        if self._child:
            self._child.kill()

    def put(self, path: str, content: bytes) -> None:
        """Write an object into the bucket."""
        with self._file_system.open_output_stream(f"{BUCKET}/{path}", compression=None) as stream:
            stream.write(content)

    def remove(self, path: str) -> None:
        self._file_system.delete_file(f"{BUCKET}/{path}")

    def names(self, folder: str) -> list[str]:
        """List the names of the objects and folders in a folder."""
        return sorted(info.base_name for info in self._file_system.get_file_info(FileSelector(f"{BUCKET}/{folder}")))

    def _has_bucket(self) -> bool:
        try:
            self._file_system.create_dir(BUCKET)
            self.put(_PROBE, b"1")  # a bucket exists before its objects can be written
            self.remove(_PROBE)
            return True
        except OSError:
            return False


@contextmanager
def running_store(policy: str = "") -> Iterator[SeaweedStore]:
    """Provide a new store, in whose environment pyarrow and deltalake connect to it."""
    with TemporaryDirectory(prefix="lakehouse-store-") as folder:
        store = SeaweedStore(Path(folder), policy)
        try:
            store.start()
            with environment(store.port):
                yield store
        finally:
            store.stop()
