"""Real Delta tables with commits of lakehouse in their history, written without a JVM."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakehouse.ledger.commits import Commit, Kind
from lakehouse.ledger.ledger import Ledger, app_id, read_ledger
from lakehouse.ledger.positions import SourceId

NAME = "t"
SCHEMA = pa.schema([("number", pa.int64())])


@dataclass(frozen=True)
class WrittenTable:
    """A merged table of one partition; batch number n inserts one row and has the progress n."""

    folder: Path
    name: str = NAME

    @classmethod
    def create(cls, folder: Path, name: str = NAME) -> Self:
        """Create an empty table as version 0."""
        DeltaTable.create(str(folder), SCHEMA)
        return cls(folder, name)

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.folder))

    @property
    def ledger(self) -> Ledger:
        return read_ledger(str(self.folder), self.name)

    @property
    def progress(self) -> int | None:
        progress = self.ledger.progress
        return progress.positions[0] if progress else None

    @property
    def version(self) -> int:
        return self.table.version()

    @property
    def rows(self) -> list[int]:
        return sorted(self.table.to_pyarrow_table()["number"].to_pylist())

    def merge(self, *rows: int, kind: Kind = "batch") -> int:
        """Commit a MERGE of lakehouse with these rows; return its version."""
        commit = self._next(kind)
        properties = CommitProperties(
            custom_metadata={"userMetadata": commit.model_dump_json()},
            app_transactions=[Transaction(app_id(self.name), commit.number)],
        )
        source = pa.table({"number": pa.array(rows, pa.int64())})
        merge = self.table.merge(source, "s.number = t.number", "s", "t", commit_properties=properties)
        merge.when_not_matched_insert_all().execute()
        return self.version

    def merge_nothing(self, kind: Kind = "batch") -> int:
        """Commit a MERGE of lakehouse that changes no file, as Spark does (deltalake omits such a commit)."""
        commit = self._next(kind)
        info = {
            "timestamp": 1,
            "operation": "MERGE",
            "operationParameters": {},
            "userMetadata": commit.model_dump_json(),
        }
        actions = [{"commitInfo": info}, {"txn": {"appId": app_id(self.name), "version": commit.number}}]
        self.log_file(self.version + 1).write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        return self.version

    def _next(self, kind: Kind) -> Commit:
        table = self.table
        number = (table.transaction_version(app_id(self.name)) or 0) + 1
        return Commit(
            kind=kind,
            number=number,
            attempt=f"a{number}",
            table_version=table.version(),
            source=SourceId("kafka", "c/t"),
            progress={0: number},
        )

    def batches(self, count: int) -> None:
        """Commit ``count`` batches of one new row each."""
        for _ in range(count):
            self.merge(1000 + self.version)

    def write(self, *rows: int) -> None:
        """Append rows in a commit of another program."""
        write_deltalake(str(self.folder), pa.table({"number": pa.array(rows, pa.int64())}), mode="append")

    def restore(self, version: int) -> int:
        """Restore a version by its number; return the new version."""
        self.table.restore(version)
        return self.version

    def restore_by_time(self, version: int, time: str = "2020-01-01 00:00:00.0") -> int:
        """Restore a version and write the commit as Spark does for a timestamp, which need not match the version."""
        new_version = self.restore(version)
        self.edit(new_version, lambda info: info | {"operationParameters": {"version": None, "timestamp": time}})
        return new_version

    def log_file(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"

    def edit(self, version: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Replace the commit info of a version."""
        file = self.log_file(version)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        actions = [{"commitInfo": change(line["commitInfo"])} if "commitInfo" in line else line for line in lines]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in actions))

    def committed_at(self, version: int) -> datetime:
        """Return the timestamp in the commit info of a version."""
        timestamps = {info["version"]: info["timestamp"] for info in self.table.history()}
        return datetime.fromtimestamp(timestamps[version] / 1000, UTC)

    def put_file_time(self, version: int, time: datetime) -> None:
        os.utime(self.log_file(version), (time.timestamp(), time.timestamp()))

    def clean(self, before: int) -> None:
        """Write a checkpoint of a version and delete the log before it, as log retention does."""
        DeltaTable(str(self.folder), version=before).create_checkpoint()
        for version in range(before):
            self.log_file(version).unlink(missing_ok=True)
