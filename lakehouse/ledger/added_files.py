"""The active files of a version as its log has them, with their statistics and deletion vectors.

deltalake lists active files too, but says nothing of their deletion vectors.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lakehouse.errors import TableError
from lakehouse.ledger.log_copies import LOG, local_log
from lakehouse.ledger.log_files import Action, LogFiles
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.vectors import vector_path

if TYPE_CHECKING:
    import pyarrow as pa

VECTOR_FEATURE = "deletionVectors"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.\d{10}\.\d{10})?\.parquet")  # whole, or in parts
# Spark adds statistics and partitions once more, with their types; a table with numbers of rows is left to Spark
_MAPS = ("partitionValues", "tags")
_VALUES = ("path", "size", "modificationTime", "dataChange", "stats", "deletionVector")


def may_hide_rows(table: DeltaTable) -> bool:
    """Whether the files of an opened table may have deletion vectors."""
    return VECTOR_FEATURE in (table.protocol().reader_features or ())


def hiding_files(table: DeltaTable, uri: str) -> list[Action]:
    """Return the actions that added the active files with a deletion vector to an opened table."""
    adds = added_files(uri, table.version()).values() if may_hide_rows(table) else ()
    return [add for add in adds if add.get("deletionVector")]


def has_lost_vectors(table: DeltaTable, folder: Path) -> bool:
    """Whether a deletion vector of an opened table in this folder was deleted, as VACUUM does."""
    paths = (vector_path(add["deletionVector"]) for add in hiding_files(table, str(folder)))
    return any(not (folder / path).exists() for path in paths if path)


def added_files(uri: str, version: int) -> dict[str, Action]:
    """Return the actions that added the active files of a version, by their path in the log.

    Raises ``TableError`` if the log holds neither all commits nor a checkpoint of form V1 before them.
    """
    files = dict[str, Action | None]()
    with log_failures(uri):
        start, checkpoint_files = _last_checkpoint(local_log(uri) / LOG, version)
        first = version + 1
        for first, actions in LogFiles(uri).commits(version):
            if first <= start:
                break
            _note(files, actions)
        if first > start + 1:
            action = "Compact the table in Spark, which writes a checkpoint."
            raise TableError(f"The log of {uri} has no version {first - 1}", where=uri, action=action)
        for add in _read_checkpoint(checkpoint_files):
            files.setdefault(add["path"], add)
    return {path: add for path, add in files.items() if add}


def _note(files: dict[str, Action | None], actions: list[Action]) -> None:
    """Note what a commit says of files of which no later one says anything; it may remove and add the same path."""
    of_commit: dict[str, Action | None] = {action["remove"]["path"]: None for action in actions if action.get("remove")}
    of_commit |= {action["add"]["path"]: action["add"] for action in actions if action.get("add")}
    for path, add in of_commit.items():
        files.setdefault(path, add)


def _last_checkpoint(log: Path, version: int) -> tuple[int, Sequence[Path]]:
    """Return the newest checkpoint up to a version and its files; -1 and none if there is none."""
    matches = [(match, path) for path in log.glob("*.parquet") if (match := _CHECKPOINT.fullmatch(path.name))]
    newest = max((int(match[1]) for match, _ in matches if int(match[1]) <= version), default=-1)
    return newest, [path for match, path in matches if int(match[1]) == newest]


def _read_checkpoint(files: Sequence[Path]) -> Iterator[Action]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, and few tables need it

    for file in files:
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(columns=["add"]):
                adds: pa.StructArray = batch.column("add")
                yield from map(_to_action, adds.filter(adds.is_valid()).to_pylist())


def _to_action(add: Action) -> Action:
    """Return the action of a row of a checkpoint, as an entry of the log has it."""
    action = {name: add[name] for name in _VALUES if add.get(name) is not None}
    return action | {name: dict(add[name]) for name in _MAPS if add.get(name) is not None}
