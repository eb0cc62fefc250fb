"""Creates a table on a local disk together with its first rows: a reader finds all of them, or no table."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lakehouse.errors import ConflictError
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.durability import sync_commits
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.log import open_uncached
from lakehouse.ledger.table_failures import write_failures
from lakehouse.storage.delta_rs_writer import create_empty, replace_all
from lakehouse.storage.layout import Layout
from lakehouse.storage.lock import table_lock


def create_with_rows(layout: Layout, rows: pa.RecordBatchReader, plan: Callable[[Ledger], Commit]) -> Entry:
    """Create a table with rows in a folder next to its own, and then rename the folder.

    ``plan`` returns the commit of the rows, given the ledger of the table without rows. After a failure or a crash
    there is no table; the next run removes what is left. Raises ``ConflictError`` if another process created the table
    first, and what ``replace_all`` raises.
    """
    draft = replace(layout, uri=str(Path(layout.uri).with_name(f".{layout.name}.new")))
    with table_lock(layout.uri, layout.name):
        if open_uncached(layout.uri) is not None:
            message = f"Another writer created {layout.name}"
            raise ConflictError(message, where=layout.uri, action=layout.conflict_advice)
        shutil.rmtree(draft.uri, ignore_errors=True)
        try:
            create_empty(draft, rows.schema)
            entry = replace_all(draft, rows, plan(read_ledger(draft.uri, layout.name)))
            with write_failures(layout.uri):
                shutil.rmtree(layout.uri, ignore_errors=True)  # what an interrupted creation left
                Path(draft.uri).rename(layout.uri)
        finally:
            shutil.rmtree(draft.uri, ignore_errors=True)
        if layout.sync:
            sync_commits(layout.uri)
    return entry
