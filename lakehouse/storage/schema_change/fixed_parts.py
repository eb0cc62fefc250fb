"""What never changes in a table with rows: its key, its array of rows, its version column and the form of positions."""

import json
from collections.abc import Collection, Mapping

from deltalake import DeltaTable

from lakehouse.declaration.names import RECORD
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.errors import TableError
from lakehouse.ledger.commit_infos import LOAD_AGAIN, OLDER
from lakehouse.storage.layout import KEY, NO_VERSION, ROWS, VERSION_COLUMN, Layout, paths

ColumnPath = tuple[str, ...]


def require_key(layout: Layout, properties: Mapping[str, str]) -> None:
    """Raise if the rows were merged by another key: several of them may have the same value of the new key."""
    stored_key, declared_key = properties.get(KEY, ""), layout.enforced_properties.get(KEY, "")
    if stored_key and layout.key and stored_key != declared_key:
        raise TableError(
            f"The key of {layout.name} is {stored_key} in the table and {declared_key} in its declaration",
            where=layout.uri,
            action="Declare the key of the table, or a table with another name, which a merge fills from the topic.",
        )


def require_rows(layout: Layout, properties: Mapping[str, str]) -> None:
    """Raise if the rows were elements of another array: an index names another element there."""
    stored_path, declared_path = properties.get(ROWS, ""), layout.enforced_properties.get(ROWS, "")
    if stored_path and declared_path and stored_path != declared_path:
        raise TableError(
            f"The rows of {layout.name} are the elements of {_show_array(stored_path)} in the table and of"
            f" {_show_array(declared_path)} in its declaration",
            where=layout.uri,
            action="Declare rows_from= as before, or a table with another name, which a merge fills from the topic.",
        )


def _show_array(path: str) -> str:
    return repr(".".join(json.loads(path))) if json.loads(path) != [ELEMENT] else "the record"


def require_version(layout: Layout, properties: Mapping[str, str], table: DeltaTable) -> None:
    """Raise if stored orders have another version column: its numbers cannot be compared with those of this one."""
    stored_column, column = properties.get(VERSION_COLUMN, ""), layout.kept_version_column
    if stored_column and column and stored_column != column and table.get_add_actions().num_rows:
        stored_version = None if stored_column == NO_VERSION else stored_column
        raise TableError(
            f"The stored orders of {layout.name} have versions from column {stored_column}, and the declaration names"
            f" {column}",
            where=layout.uri,
            action=f"Declare version={stored_version!r}, or a table with another name, which a merge fills from the"
            " topic.",
        )


def require_same_rows(layout: Layout, stored_paths: Collection[ColumnPath]) -> None:
    """Raise if a struct that identifies a row has other fields: the rows of a log table differ from keyed rows."""
    declared_paths = [path for path, _ in paths(layout.columns)]
    differences = {*declared_paths} ^ {*stored_paths}
    differences = {path for path in differences if len(path) > 1 and path[0] in layout.anchors}
    differences = {path for path in differences if path[:-1] in stored_paths}
    if any(path[1:] == ("index",) for path in differences):
        verb = "have" if {path for path in differences if path[1:] == ("index",)} <= {*stored_paths} else "have no"
        raise TableError(
            f"The rows of {layout.name} {verb} index: they were written with rows_from and the declaration has none, or"
            " the other way round",
            where=layout.uri,
            action="Declare rows_from= and the key as before, or a table with another name.",
        )
    if differences == {(RECORD, "base")}:
        verb = "have" if differences <= {*stored_paths} else "have no"
        raise TableError(
            f"The rows of {layout.name} {verb} {RECORD}.base: they were written with a key and the declaration has"
            " none, or the other way round",
            where=layout.uri,
            action="Declare the key as before, or a table with another name.",
        )
    if differences & {*declared_paths}:
        raise TableError(f"The table {layout.name} {OLDER}", where=layout.uri, action=LOAD_AGAIN)
