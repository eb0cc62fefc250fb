"""Replaces rows in their slots: the data file of a stored row, and the index of the row in it.

The comparison of new rows with stored ones has read the slots, so no row is searched again. A file in which rows are
replaced is copied without them. The new rows, the copies and the changes are one commit on the version that was
compared. A MERGE of Spark would find the rows twice more, and takes several times as long to write such files.
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakehouse.decoding.staged import MATCHED_ROW, REMOVES, SLOT, STALE
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.ledger import app_id
from lakehouse.ledger.log_copies import LOG
from lakehouse.settings.store import Store
from lakehouse.storage.data_files import writer_properties
from lakehouse.storage.delta_rs_writer import commit_planned
from lakehouse.storage.layout import Layout
from lakehouse.storage.slot_files import ENTRY_DRAFT, Action, NewFiles, TouchedFile, hide_rows, list_touched_files
from lakehouse.storage.store_drafts import no_files

_THREADS = 2  # that copy files: each decodes one and encodes another at a time
_CHANGE_FOLDER, _CHANGE_TYPE = "_change_data/", "_change_type"
_CHANGE_FIELDS = ("path", "partitionValues", "size")


def write_slots(layout: Layout, rows: pa.Table, key: Sequence[str], commit: Commit) -> Entry:
    """Insert, replace or remove rows, one for each key, in one commit that carries ``commit``.

    Each row has the stored row that it replaces, with its slot, in ``_met``; without this column, no row has one. Stale
    rows are counted but not stored. A crash leaves files that no version names. Raises what ``append_quickly`` raises,
    ``ConflictError`` also if a file cannot be copied, and ``TableError`` if a slot has another row than the one that
    was compared.
    """
    if MATCHED_ROW not in rows.column_names:
        rows = rows.append_column(MATCHED_ROW, pa.nulls(len(rows)))

    def write(table: DeltaTable) -> None:
        try:
            _Replacement(layout, table, tuple(key), rows).commit(commit)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise CommitFailedError(f"A file of {layout.name} cannot be copied: {error}") from error

    return commit_planned(layout, commit, write, no_files)


def files_of_slots(rows: pa.Table) -> list[str]:
    """Return the URIs of the files in which compared rows replace or remove stored ones."""
    files: list[str] = pc.unique(_slots(_select_matched(rows))["file"]).to_pylist()
    return files


def _select_matched(rows: pa.Table) -> pa.Table:
    """Return the rows that are written in place of a stored one."""
    return rows.filter(pc.and_(pc.invert(rows[STALE]), rows[MATCHED_ROW].is_valid()))


def _slots(rows: pa.Table) -> pa.Table:
    return pa.table({part: pc.struct_field(rows[MATCHED_ROW], [SLOT, part]) for part in ("file", "index")})


@dataclass(frozen=True)
class _Replacement:
    """Compared rows, and their table, which is open at the version that they were compared with."""

    layout: Layout
    table: DeltaTable
    key: tuple[str, ...]
    rows: pa.Table

    def commit(self, commit: Commit) -> None:
        """Write the files, then the log entry, unless the version is taken."""
        folder = Store(self.table.table_uri).folder or Path(self.table.table_uri)  # of the table, or of a draft
        new_files = NewFiles(self.layout, folder)
        new_files.remove_drafts()
        files, now = self._touched_files(), time.time_ns() // 1_000_000
        if files and self.layout.deletion_vectors:
            hidden = hide_rows(self.layout, folder, self.table.version(), files, now)
            removed, added = [rows.removed for rows in hidden], [rows.added for rows in hidden if rows.added]
            added += self._write_rows(new_files, [])
        else:
            removed, added = [file.as_removed(self.layout, now) for file in files], self._write_rows(new_files, files)
        changes = self._write_changes(new_files) if files and self.layout.change_data else []
        actions = [
            {"commitInfo": self._info(commit, now, (len(added), len(removed), len(changes)))},
            {"txn": {"appId": app_id(self.layout.name), "version": commit.number, "lastUpdated": now}},
            *({"remove": file} for file in removed),
            *({"add": file} for file in added),
            *({"cdc": {name: file[name] for name in _CHANGE_FIELDS} | {"dataChange": False}} for file in changes),
        ]
        _create_entry(folder / LOG, commit.table_version + 1, actions)
        self.table.update_incremental()

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema(self.table.schema())

    @cached_property
    def _matched(self) -> pa.Table:
        return _select_matched(self.rows)

    @cached_property
    def _is_removed(self) -> pa.ChunkedArray:
        """Of each matched row, whether it removes the stored one."""
        has_flag = REMOVES in self._matched.column_names
        return self._matched[REMOVES] if has_flag else pa.chunked_array([pa.repeat(False, len(self._matched))])

    @cached_property
    def _inserted(self) -> pa.Table:
        return self._after(self.rows.filter(pc.and_(pc.invert(self.rows[STALE]), self.rows[MATCHED_ROW].is_null())))

    @cached_property
    def _updated(self) -> pa.Table:
        return self._after(self._matched.filter(pc.invert(self._is_removed)))

    def _after(self, rows: pa.Table) -> pa.Table:
        return rows.select(self._schema.names).cast(self._schema)

    def _before(self) -> pa.Table:
        """Return the stored rows that are replaced or removed."""
        rows = self._matched
        columns = [
            rows[name] if name in self.key else pc.struct_field(rows[MATCHED_ROW], [name])
            for name in self._schema.names
        ]
        return pa.table(columns, self._schema.names).cast(self._schema)

    def _touched_files(self) -> list[TouchedFile]:
        if not self._matched:
            return []
        keys = self._before().select(self.key)
        slots = _slots(self._matched)
        return list_touched_files(
            self.layout, self.table, pa.table([*slots.columns, *keys.columns], ["file", "index", *self.key])
        )

    def _write_rows(self, new_files: NewFiles, files: Sequence[TouchedFile]) -> list[Action]:
        """Write the new rows and the copies, in several threads; return the actions that add the files."""
        new_rows = pa.concat_tables([self._updated, self._inserted])
        copies = [file.read_other_rows(self.layout, self._schema) for file in files]
        shares = [chain(new_rows.to_batches(), *copies[::_THREADS])]
        shares += [chain.from_iterable(copies[number::_THREADS]) for number in range(1, min(_THREADS, len(copies)))]
        properties = writer_properties(new_rows)

        def write(batches: Iterator[pa.RecordBatch]) -> list[Action]:
            return new_files.write(self._schema, batches, properties)

        with ThreadPoolExecutor(_THREADS) as threads:
            return list(chain.from_iterable(threads.map(write, shares if len(new_rows) or copies else ())))

    def _write_changes(self, new_files: NewFiles) -> list[Action]:
        kinds = pc.if_else(self._is_removed, "delete", "update_preimage")
        before = self._before().append_column(_CHANGE_TYPE, kinds)
        later_changes = (
            rows.append_column(_CHANGE_TYPE, pa.chunked_array([pa.repeat(kind, len(rows))]))
            for rows, kind in ((self._updated, "update_postimage"), (self._inserted, "insert"))
        )
        changes = pa.concat_tables([before, *later_changes])
        return new_files.write(changes.schema, changes.to_batches(), writer_properties(changes), _CHANGE_FOLDER)

    def _info(self, commit: Commit, milliseconds: int, counts: tuple[int, int, int]) -> Action:
        """Return what the history says of the commit; its metrics have the names of a MERGE of Spark."""
        updated, inserted = len(self._updated), len(self._inserted)
        metrics = {
            "numSourceRows": len(self.rows),
            "numTargetRowsInserted": inserted,
            "numTargetRowsUpdated": updated,
            "numTargetRowsDeleted": len(self._matched) - updated,
            **dict(
                zip(("numTargetFilesAdded", "numTargetFilesRemoved", "numTargetChangeFilesAdded"), counts, strict=True)
            ),
        }
        return {
            "timestamp": milliseconds,
            "operation": "MERGE",
            "operationParameters": {},
            "operationMetrics": {name: str(count) for name, count in metrics.items()},
            "readVersion": commit.table_version,
            "isBlindAppend": False,
            "engineInfo": "lakehouse",
            "userMetadata": commit.model_dump_json(),
        }


def _create_entry(log: Path, version: int, actions: Iterable[Action]) -> None:
    """Create the log entry of a version; raises ``CommitFailedError`` if there is one."""
    draft = log / ENTRY_DRAFT.format(uuid4().hex)
    try:
        draft.write_text("".join(f"{json.dumps(action)}\n" for action in actions), encoding="utf-8")
        (log / f"{version:020d}.json").hardlink_to(draft)
    except FileExistsError as error:
        raise CommitFailedError(f"Version {version} exists") from error
    finally:
        draft.unlink(missing_ok=True)
