"""A table whose commits are synced, and the next one as a power failure may leave it."""

import os
from dataclasses import replace
from pathlib import Path

from deltalake import DeltaTable

from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.tables.plain_tables import NULL_PLACE, OSLO, PARIS, create_table, next_commit, rows


def commit_unsynced(layout: Layout) -> Layout:
    """Commit a row like a process that is killed before the row is synced."""
    append_quickly(replace(layout, sync=False), rows(OSLO), next_commit(layout))
    return layout


def newest_file(layout: Layout) -> Path:
    """Return the data file that the newest version added."""
    table = DeltaTable(layout.uri)
    older_files = DeltaTable(layout.uri, version=table.version() - 1).file_uris()
    (file,) = {*table.file_uris()} - {*older_files}
    return Path(file)


def entry(layout: Layout, version: int) -> Path:
    return Path(layout.uri, "_delta_log", f"{version:020d}.json")


def truncate(file: Path, size: int = 0) -> None:
    os.truncate(file, size)


def synced_table(folder: Path) -> Layout:
    """Return a table with two versions, both synced."""
    layout = create_table(folder, PARIS)
    append_quickly(layout, rows(NULL_PLACE), next_commit(layout))
    return layout
