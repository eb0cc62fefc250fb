"""Random histories of a folder of files: files come, change, move and go away, and runs die between batches.

Some files cannot be read for a while: their names are not UTF-8, a permission is missing, or they grow forever.
"""

import errno
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Files, Reject, StreamTable
from lakehouse.errors import DataLossError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.replay import replay
from lakehouse.ledger.audit import audit
from lakehouse.ledger.ledger import ledger_of
from lakehouse.operations.repair import propose_gap, record
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.histories.file_model import Content, FolderModel, Record
from lakehouse_tests.helpers.histories.held_files import growing, permissions_obeyed
from lakehouse_tests.helpers.tables.rows import rows_of

PATHS = st.sampled_from(["a.json", "b.json", "c/a.json", "c/b.json"])
HELD = {
    "caf\udce9.json": "its name is not UTF-8",
    "locked.json": os.strerror(errno.EACCES),
    "c/locked.json": os.strerror(errno.EACCES),
    "growing.json": "not unchanged for 0.5 seconds yet",
}
READABLE_NAMES = {"caf\udce9.json": "cafe.json"}
SETTLE = timedelta(seconds=0.5)  # while a file grows
RECORDS = st.lists(st.tuples(st.integers(0, 4), st.integers(-2, 6)), min_size=1, max_size=4)


class RunDiedError(Exception):
    """A run that ends between two batches."""


def table_of(folder: Path, *, is_keyed: bool, batch_bytes: int, settle: timedelta) -> StreamTable:
    """Return the table that reads a folder."""
    return StreamTable(
        name="readings",
        doc="Readings.",
        columns=[Column("id", "INT", "Device.", required=True), Column("amount", "INT", "Amount.", required=True)],
        key=["id"] if is_keyed else [],
        rejects=[Reject("negative", when="amount < 0")],
        source=Files(str(folder), names="*.json", settle=settle, batch_bytes=batch_bytes),
    )


class FileHistories(RuleBasedStateMachine):
    """One new folder and its table; a subclass sets ``spark``, ``make_folder`` and ``on_step``."""

    spark: SparkSession
    make_folder: Callable[[], Path]
    on_step: Callable[[], None]

    @initialize(is_keyed=st.booleans())
    def begin(self, is_keyed: bool) -> None:
        home = type(self).make_folder()
        self.folder, self.is_keyed, self.model, self.clock = home / "in", is_keyed, FolderModel(), 1_700_000_000
        self.folder.mkdir()
        self.settings = Settings(home=home / "home", _env_file=None)
        self.batch_bytes = 1

    @property
    def is_growing(self) -> bool:
        return "growing.json" in self.model.held_files

    @property
    def table(self) -> StreamTable:
        settle = SETTLE if self.is_growing else timedelta(0)
        return table_of(self.folder, is_keyed=self.is_keyed, batch_bytes=self.batch_bytes, settle=settle)

    @contextmanager
    def files_held_back(self) -> Iterator[None]:
        """Files without permission cannot be read during the block, and one that grows does not settle."""
        with permissions_obeyed(), growing(self.folder / "growing.json") if self.is_growing else nullcontext():
            yield

    @property
    def context(self) -> TableContext:
        return TableContext(self.spark, self.settings, self.table)

    @rule(path=PATHS, records=RECORDS)
    def write(self, path: str, records: list[Record]) -> None:
        """Write a file, or replace it, with a time of its own."""
        self.model.files[path] = self._write(path, records)

    def _write(self, path: str, records: Sequence[Record], mode: int = 0o644) -> Content:
        self.clock += 1
        file, unfinished = self.folder / path, self.folder / "_unfinished"
        file.parent.mkdir(exist_ok=True)
        unfinished.write_text("".join(json.dumps({"id": id_, "amount": amount}) + "\n" for id_, amount in records))
        os.utime(unfinished, (self.clock, self.clock))
        unfinished.chmod(mode)
        unfinished.rename(file)
        return Content(self.clock, tuple(records))

    @rule(path=st.sampled_from([*HELD]), records=RECORDS)
    def hold(self, path: str, records: list[Record]) -> None:
        """Write a new file that no run can read."""
        if self.model.is_new(path):
            self.model.held_files[path] = self._write(path, records, mode=0 if "locked" in path else 0o644)

    @precondition(lambda self: self.model.held_files)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Make a file readable: by another name, by a permission, or by its last lines."""
        path = data.draw(st.sampled_from(sorted(self.model.held_files)), label="path")
        content, new_path = self.model.held_files.pop(path), READABLE_NAMES.get(path, path)
        if path == "growing.json":
            content = self._write(path, content.records)
        (self.folder / path).rename(self.folder / new_path)
        (self.folder / new_path).chmod(0o644)
        self.model.files[new_path] = content

    @precondition(lambda self: self.model.files)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.files)), label="path")
        (self.folder / path).unlink()
        del self.model.files[path]

    @precondition(lambda self: self.model.files)
    @rule(data=st.data(), new_path=PATHS)
    def move(self, data: st.DataObject, new_path: str) -> None:
        """Move a file, which keeps its time, perhaps to the place of another one."""
        path = data.draw(st.sampled_from(sorted(self.model.files)), label="path")
        (self.folder / new_path).parent.mkdir(exist_ok=True)
        (self.folder / path).rename(self.folder / new_path)
        self.model.files[new_path] = self.model.files.pop(path)

    @rule(batches=st.none() | st.integers(1, 2))
    def merge(self, batches: int | None) -> None:
        """Merge one file in each batch; die after some batches. A loss stops the run, and is accepted."""
        merged_batches: list[Outcome] = []

        def die_after(outcome: Outcome) -> None:
            merged_batches.extend([outcome] if outcome.entry.commit.kind == "batch" else [])
            if batches is not None and len(merged_batches) >= batches:
                raise RunDiedError

        is_stopped = self.model.merge(batches)
        try:
            with self.files_held_back():
                time.sleep(2 * SETTLE.total_seconds() if self.is_growing else 0)
                merge_all(self.context, on_batch=die_after)
        except RunDiedError:
            pass
        except DataLossError:
            assert is_stopped
            is_stopped = False
        assert not is_stopped, "a removed file has not stopped the run"

    @rule()
    def merge_in_one_batch(self) -> None:
        self.batch_bytes = 2**30
        self.merge(None)
        self.batch_bytes = 1

    @precondition(lambda self: self.model.numbered)
    @rule()
    def accept(self) -> None:
        """Accept a loss, if there is one."""
        with self.files_held_back():
            proposal, is_gap = propose_gap(self.settings, self.table), self.model.accept_gap()
        assert (proposal is not None) == is_gap
        if proposal:
            record(self.context, proposal)

    @precondition(lambda self: self.model.merged)
    @rule()
    def replay_all(self) -> None:
        """Replay what the folder still has, which changes nothing; an open loss refuses it."""
        try:
            with self.files_held_back():
                outcomes = replay(self.context)
        except DataLossError:
            return
        assert not any(outcome.entry.metrics.inserted + outcome.entry.metrics.updated for outcome in outcomes)

    @invariant()
    def tables_equal_the_model(self) -> None:
        if not hasattr(self, "settings"):
            return
        ledger = ledger_of(self.settings, self.table.name)
        if ledger.exists:
            rows = Counter((row["id"], row["amount"]) for row in rows_of(self.settings, self.table.name))
            assert rows == self.model.rows(is_keyed=self.is_keyed)
            rejected = rows_of(self.settings, self.table.rejected_name)
            assert Counter(amount_of(row) for row in rejected) == self.model.rejected()
            assert ledger.totals.read == len(self.model.records)
            assert not [finding for finding in audit(ledger) if not finding.passed]
            self._compare_held()
        type(self).on_step()

    def _compare_held(self) -> None:
        """Check that ``status`` names each file that no run can read; others may wait for one that was removed."""
        with self.files_held_back():
            held_parts = status(self.settings, self.table).held_parts
        reasons = {part.name: part.reason for part in held_parts if part.name not in self.model.files}
        assert reasons == {path: HELD[path] for path in self.model.held_files}


def amount_of(rejected_row: dict[str, Any]) -> int:
    """Return the amount of a rejected record."""
    return int(json.loads(rejected_row["value"])["amount"])
