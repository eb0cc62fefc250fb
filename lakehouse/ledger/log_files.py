"""Reads the files of a table's log by name, one at a time, from a folder or an object store."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from lakehouse.ledger.table_failures import damaged_log_error
from lakehouse.settings.store import Store

LOG = "_delta_log"

Action = dict[str, Any]  # a line of a commit


class _Files(Protocol):
    """The location of a log; reading a missing file raises ``FileNotFoundError``."""

    def has_file(self, name: str) -> bool: ...

    def read(self, name: str) -> bytes: ...

    def written_at(self, name: str) -> int: ...


class LogFiles:
    """The log files of a table."""

    def __init__(self, uri: str) -> None:
        self._uri, store = uri, Store(uri)
        self._files: _Files = _Folder(Path(uri)) if store.is_path else _InStore(store)

    def has_version(self, version: int) -> bool:
        """Whether the commit of a version exists; does not read it."""
        return self._files.has_file(_name(version))

    def written_at(self, version: int) -> int:
        """The modification time of a commit's file, in milliseconds since 1970."""
        return self._files.written_at(_name(version))

    def commits(self, newest: int) -> Iterator[tuple[int, list[Action]]]:
        """Read versions and the actions of their commits, backwards to the oldest one.

        Raises ``TableDamagedError`` if a commit is empty.
        """
        for version in range(newest, -1, -1):
            try:
                commit = self._files.read(_name(version))
            except FileNotFoundError:
                return
            actions = [json.loads(line) for line in commit.splitlines() if line.strip()]
            if not actions:
                raise damaged_log_error(f"{_name(version)} is empty", self._uri)
            yield version, actions


class _Folder:
    """A log on a local disk."""

    def __init__(self, table: Path) -> None:
        self._table = table

    def has_file(self, name: str) -> bool:
        return (self._table / name).exists()

    def read(self, name: str) -> bytes:
        return (self._table / name).read_bytes()

    def written_at(self, name: str) -> int:
        return (self._table / name).stat().st_mtime_ns // 1_000_000


class _InStore:
    """A log in an object store."""

    def __init__(self, store: Store) -> None:
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415 - imports pyarrow, which a local log does not need

        self._store = DeltaStorageHandler(store.uri, store.options)

    def has_file(self, name: str) -> bool:
        with suppress(FileNotFoundError):
            self._store.open_input_file(name)
            return True
        return False

    def read(self, name: str) -> bytes:
        return bytes(self._store.open_input_file(name).read())

    def written_at(self, name: str) -> int:
        (file,) = self._store.get_file_info([name])
        return int((file.mtime_ns or 0) // 1_000_000)


def _name(version: int) -> str:
    return f"{LOG}/{version:020d}.json"
