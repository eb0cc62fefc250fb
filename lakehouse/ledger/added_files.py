"""The active files of a version as its log has them, with their statistics and deletion vectors.

deltalake lists active files too, but says nothing of their deletion vectors.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import TableError
from lakehouse.ledger.log_copies import LOG, local_log
from lakehouse.ledger.log_files import Action, LogFiles
from lakehouse.ledger.table_failures import log_failures

if TYPE_CHECKING:
    import pyarrow as pa


def added_files(uri: str, version: int) -> dict[str, Action]:
    """Return the actions that added the active files of a version, by their path in the log.

    Raises ``TableError`` if the log holds neither all commits nor a checkpoint before them, in one file.
    """
    files = dict[str, Action | None]()
    with log_failures(uri):
        start, checkpoint = _last_checkpoint(local_log(uri) / LOG, version)
        first = version + 1
        for first, actions in LogFiles(uri).commits(version):
            if first <= start:
                break
            _note(files, actions)
        if first > start + 1:
            action = "Compact the table in Spark, which writes a checkpoint."
            raise TableError(f"The log of {uri} has no version {first - 1}", where=uri, action=action)
        for add in _read_checkpoint(checkpoint) if checkpoint else ():
            files.setdefault(add["path"], add)
    return {path: add for path, add in files.items() if add}


def _note(files: dict[str, Action | None], actions: list[Action]) -> None:
    """Note what a commit says of files of which no later one says anything; it may remove and add the same path."""
    of_commit: dict[str, Action | None] = {action["remove"]["path"]: None for action in actions if action.get("remove")}
    of_commit |= {action["add"]["path"]: action["add"] for action in actions if action.get("add")}
    for path, add in of_commit.items():
        files.setdefault(path, add)


def _last_checkpoint(log: Path, version: int) -> tuple[int, Path | None]:
    """Return the newest checkpoint up to a version and its file; -1 and ``None`` if there is none in one file."""
    names = (path.name for path in log.glob("*.checkpoint.parquet"))
    newest = max((int(name[:20]) for name in names if int(name[:20]) <= version), default=-1)
    return newest, log / f"{newest:020d}.checkpoint.parquet" if newest >= 0 else None


def _read_checkpoint(file: Path) -> Iterator[Action]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, and few tables need it

    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(columns=["add"]):
            adds: pa.StructArray = batch.column("add")
            for add in adds.filter(adds.is_valid()).to_pylist():
                yield {name: value for name, value in add.items() if value is not None} | {
                    "partitionValues": dict(add["partitionValues"] or ())
                }
