"""Whether VACUUM has anything to delete, without Spark: it takes seconds for each table, also if it deletes nothing."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from lakehouse.ledger.log import active_files
from lakehouse.settings.store import Store
from lakehouse.storage.layout import Layout

_LOG = "_delta_log"


def has_removable_files(layout: Layout) -> bool:
    """Whether a file was last changed before the retention and is not active; in an object store, there may be one.

    VACUUM deletes no other file. It may keep such a file, because a version within the retention needs it.
    """
    folder = Store(layout.uri).folder
    if folder is None:
        return True
    active_paths = set(map(unquote, active_files(layout.uri)["path"].to_pylist()))
    oldest = time.time() - max(1.0, layout.retention.total_seconds())
    return any(path not in active_paths and _is_older(folder / path, oldest) for path in _files_in(folder))


def _files_in(folder: Path) -> Iterator[str]:
    """Yield the paths of the files of a table within its folder, without its log and hidden files."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != _LOG]
        yield from (os.path.relpath(Path(parent, name), folder) for name in files if not name.startswith("."))


def _is_older(file: Path, time_of_change: float) -> bool:
    with suppress(FileNotFoundError):
        return file.stat().st_mtime < time_of_change
    return False
