"""The difference between a stored table and its layout, or the reason why they do not fit. Reads only the log."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from pyspark.sql.types import StructType

from lakehouse.declaration.columns import is_recast, is_widened
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.snapshot import find_redeclared_columns, find_renamed_columns
from lakehouse.declaration.vocabulary import Day, Month, Value, Year
from lakehouse.decoding.nested_types import as_spark_says
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.errors import TableError, restore_advice
from lakehouse.ledger.commit_infos import LOAD_AGAIN, OLDER
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.storage.layout import (
    COLUMNS_PROPERTY,
    DECLARATION_PROPERTY,
    KEY,
    ROWS,
    VERSION_COLUMN,
    Layout,
    TableColumn,
    paths,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ColumnPath = tuple[str, ...]
_ADD_ANOTHER = ", or a column or a table with another name, which a merge fills from the topic"
ColumnTypes = dict[ColumnPath, str]
"""The type of every column of a table and of every field of a struct, by the path of names to it."""


def require_key(layout: Layout, properties: Mapping[str, str]) -> None:
    """Raise if the rows were merged by another key: several of them may have the same value of the new key."""
    stored_key, declared_key = properties.get(KEY, ""), layout.enforced_properties.get(KEY, "")
    if stored_key and layout.key and stored_key != declared_key:
        raise TableError(
            f"The key of {layout.name} is {stored_key} in the table and {declared_key} in its declaration",
            where=layout.uri,
            action=f"Declare the key of the table, or build it again: lakehouse rebuild {layout.declaration_name}",
        )


def require_rows(layout: Layout, properties: Mapping[str, str]) -> None:
    """Raise if the rows were elements of another array: an index names another element there."""
    stored_path, declared_path = properties.get(ROWS, ""), layout.enforced_properties.get(ROWS, "")
    if stored_path and declared_path and stored_path != declared_path:
        raise TableError(
            f"The rows of {layout.name} are the elements of {_show_array(stored_path)} in the table and of"
            f" {_show_array(declared_path)} in its declaration",
            where=layout.uri,
            action=f"Declare rows_from= as before, or build it again: lakehouse rebuild {layout.declaration_name}",
        )


def _show_array(path: str) -> str:
    return repr(".".join(json.loads(path))) if json.loads(path) != [ELEMENT] else "the record"


_COMPUTED = "("
"""What a version has that computes a part: the SQL of it. Values by other SQL, or of before, are in stored rows."""


def require_version(layout: Layout, properties: Mapping[str, str], table: DeltaTable) -> None:
    """Raise if stored orders have another version: its values cannot be compared with those of this one."""
    stored_column, column = properties.get(VERSION_COLUMN, ""), layout.kept_version_column
    is_stored = bool(stored_column and column) or _COMPUTED in f"{stored_column}{column}"
    if is_stored and stored_column != column and table.get_add_actions().num_rows:
        raise TableError(
            f"The stored orders of {layout.name} have versions from column {stored_column or 'none'}, and the"
            f" declaration names {column or 'another one'}",
            where=layout.uri,
            action=f"Declare the version as before, or build it again: lakehouse rebuild {layout.declaration_name}",
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


@dataclass(frozen=True)
class RewriteScope:
    """What a rewrite may change in addition to a run: column types and partitions.

    ``partition`` is the partition of the layout. ``periods`` are the generated columns that may partition the rows now.
    ``readers`` read texts by the rules of a declared column: from distinct ones (``text``), they return the ``value``
    of each, and why it has none (``detail``, NULL if it has one).
    """

    partition: Day | Month | Year | Value | None = None
    periods: Collection[Day | Month | Year] = ()
    readers: Mapping[str, "Callable[[DataFrame], DataFrame]"] = field(default_factory=dict)


@dataclass(frozen=True)
class SchemaDiff:
    """What has to change in a table so that it fits its layout: missing columns, struct fields and properties.

    ``widened_columns`` have a narrower type. ``retyped_columns`` have another type, in a table that is then recomputed
    as a whole. Only a rewrite handles ``recast_columns``, whose other type may hold each value unchanged, and
    ``stored_partitions``, if these differ from the layout. ``former_declaration`` is a text of facts. ``ledger`` is
    read after the table was opened.
    """

    ledger: Ledger
    missing_columns: Sequence[tuple[ColumnPath, TableColumn]]
    properties: Mapping[str, str]
    widened_columns: Sequence[str]
    retyped_columns: Sequence[str] = ()
    recast_columns: Sequence[str] = ()
    stored_partitions: Sequence[str] | None = None
    former_declaration: str = ""

    @property
    def needs_rewrite(self) -> bool:
        """Whether every row has to be rewritten."""
        return bool(self.widened_columns or self.recast_columns) or self.stored_partitions is not None


def compare_schema(layout: Layout, table: DeltaTable, scope: RewriteScope | None = None) -> SchemaDiff:
    """Compare an opened table with its layout; write nothing.

    Raises ``TableError`` if the table does not fit, ``LedgerError`` if this version cannot read the commit metadata.
    """
    ledger = read_ledger(layout.uri, layout.name)
    metadata, stored_types = table.metadata(), _read_types(table)
    require_key(layout, metadata.configuration)
    require_rows(layout, metadata.configuration)
    require_version(layout, metadata.configuration, table)
    _require_names(layout, metadata.configuration.get(DECLARATION_PROPERTY, ""))
    type_changes = _find_type_changes(layout, stored_types, scope)
    stored_partitions = metadata.partition_columns if list(metadata.partition_columns) != layout.partitions else None
    if stored_partitions is not None and scope is None:
        raise _partitions_error(layout, stored_partitions)
    column_names = [path[0] for path in stored_types if len(path) == 1]
    former_declaration = _require_same_fields(layout, metadata.configuration, column_names)
    new_partitions = {(name,): "" for name in layout.partitions if stored_partitions is not None}
    return SchemaDiff(
        ledger,
        _find_missing_columns(layout, new_partitions | stored_types, ledger),
        layout.corrections(metadata.configuration),
        **type_changes,
        stored_partitions=stored_partitions,
        former_declaration=former_declaration,
    )


def read_schema_diff(layout: Layout, scope: RewriteScope | None = None) -> SchemaDiff | None:
    """Return the current result of ``compare_schema``, or ``None`` if there is no table."""
    table = open_table(layout.uri)
    with log_failures(layout.uri):
        return compare_schema(layout, table, scope) if table else None


def find_retyped_columns(layout: Layout) -> list[str]:
    """Return the stored columns whose other type forces a recomputation of the whole table.

    The list is empty if there is no table. Reads the log and writes nothing.
    """
    table = open_table(layout.uri)
    return _find_type_changes(layout, _read_types(table), None)["retyped_columns"] if table else []


def _read_types(table: DeltaTable) -> ColumnTypes:
    return _collect_types(StructType.fromJson(json.loads(table.schema().to_json())))


def _collect_types(schema: StructType, parent_path: ColumnPath = ()) -> ColumnTypes:
    """Return the types of a schema by column path."""
    types = {parent_path: schema.simpleString()}
    for column in schema:
        path = (*parent_path, column.name)
        types[path] = column.dataType.simpleString()
        if isinstance(column.dataType, StructType):
            types |= _collect_types(column.dataType, path)
    return types


def _find_missing_columns(
    layout: Layout, stored_types: Mapping[ColumnPath, str], ledger: Ledger
) -> list[tuple[ColumnPath, TableColumn]]:
    """Return the columns that the table does not have; raise ``TableError`` if one of them may not be added."""
    missing_columns = [
        (path, column)
        for path, column in paths(layout.columns)
        if path[:-1] in stored_types and path not in stored_types
    ]
    require_same_rows(layout, stored_types)
    if missing_columns:
        _require_new(layout, [path[0] for path, _ in missing_columns if len(path) == 1], ledger)
    return missing_columns


def _find_type_changes(layout: Layout, stored_types: ColumnTypes, scope: RewriteScope | None) -> dict[str, list[str]]:
    """Group the columns with another type by what happens to them; raise ``TableError`` if a change is not allowed."""
    changes: dict[str, list[str]] = {"widened_columns": [], "retyped_columns": [], "recast_columns": []}
    for path, column in paths(layout.columns):
        declared_type = as_spark_says(column.type)
        stored_type = stored_types.get(path, declared_type)
        if stored_type == declared_type or column.fields:
            continue
        is_wider = len(path) == 1 and is_widened(stored_type, declared_type)
        can_recast = len(path) == 1 and path[0] not in layout.fixed_columns and is_recast(stored_type, declared_type)
        if is_wider and (column.can_widen or column.is_recomputed):
            changes["widened_columns"].append(column.name)
        elif column.is_recomputed:
            changes["retyped_columns"].append(column.name)
        elif scope and can_recast:
            changes["recast_columns"].append(column.name)
        else:
            advice = f", or rewrite every row with the declared type: {layout.rewrite}" if can_recast else _ADD_ANOTHER
            if is_wider and path[0] not in layout.partitions:
                advice = f", or add widened_from={stored_type.upper()!r} to widen the stored column"
            raise _type_error(layout, path, (stored_type, declared_type), advice)
    return changes


def _type_error(layout: Layout, path: ColumnPath, types: tuple[str, str], advice: str) -> TableError:
    stored_type, declared_type = types
    return TableError(
        f"Column {'.'.join(path)} of {layout.name} is {stored_type} in the table and {declared_type} in its"
        " declaration",
        where=layout.uri,
        action=f"Declare the type of the table{advice}.",
    )


def _partitions_error(layout: Layout, stored_partitions: Sequence[str]) -> TableError:
    return TableError(
        f"{layout.name} is partitioned by {', '.join(stored_partitions) or 'nothing'} in the table and"
        f" by {', '.join(layout.partitions) or 'nothing'} in its declaration",
        where=layout.uri,
        action=f"Declare the partitions of the table, or rewrite every row with the declared ones: {layout.rewrite}",
    )


def _require_names(layout: Layout, former_declaration: str) -> None:
    """Raise if a column replaces another that read the same source: the values would be split between the two."""
    can_compare = former_declaration and layout.declaration_facts
    for former_name, new_name in (
        find_renamed_columns(former_declaration, layout.declaration_facts) if can_compare else ()
    ):
        raise TableError(
            f"Column {new_name} of {layout.name} reads the same source as its column {former_name}, which is no longer"
            " declared",
            where=layout.uri,
            action=f"Keep the name {former_name} and set source= to the name in the records. Or declare both (without"
            f" formerly), merge once, then remove {former_name}.",
        )


def _require_same_fields(layout: Layout, properties: Mapping[str, str], column_names: Collection[str]) -> str:
    """Return the former declaration as facts, with the sources of former columns.

    Raise if a stored column is declared again with another field: its old values would look like values of that field.
    """
    former_declaration = properties.get(DECLARATION_PROPERTY, "") if layout.declaration_facts else ""
    own_columns = {*properties.get(COLUMNS_PROPERTY, "").split(",")}
    for name, former_source, is_same in find_redeclared_columns(former_declaration, layout.declaration_facts):
        if not is_same and name in column_names and name in own_columns:
            raise TableError(
                f"Column {name} of {layout.name} still holds values from {former_source}, its former source, and would"
                " now read another field",
                where=layout.uri,
                action="Give the new column another name and set source= to the name in the records. Or declare"
                f" {name} as before.",
            )
    return former_declaration


def _require_new(layout: Layout, missing_columns: Sequence[str], ledger: Ledger) -> None:
    """Raise if a missing column existed before: adding it again would hide the loss of its values."""
    newest = ledger.newest
    is_same = newest is not None and newest.commit.declaration == layout.declaration != ""
    dropped_columns = [name for name in missing_columns if is_same or name in layout.anchors]
    if dropped_columns:
        raise TableError(
            f"Column {dropped_columns[0]} is in the declaration of {layout.name} and no longer in the table",
            where=layout.uri,
            action="Another program dropped or renamed it. Restore the version before that, then run it again."
            f" {restore_advice(layout.uri)}",
        )
