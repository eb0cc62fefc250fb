"""The rules for ``source=Files(...)``: the folder, and what files do not have."""

from collections.abc import Iterator
from datetime import timedelta

from lakehouse.declaration.delete_conditions import HeaderIs, SchemaIs, Tombstone
from lakehouse.declaration.files import Files
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.record_parts import FILE_HEADER, HEADER, KEY, PARSED_KEY, TOPIC

_EACH = ("line", "element", "row")
_FIELD_ONLY = "Records of files have a value alone: decide by a field, with FieldIs(...)."


def files_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the files of a table."""
    if table.source is None:
        return
    if not isinstance(table.source, Files):
        yield f"source is {table.source!r}", 'Write, for example: source=Files("measurements", names="*.json")'
        return
    yield from _folder_problems(table.source)
    yield from _line_problems(table.source)
    yield from _format_problems(table, table.source)
    yield from _absent_parts(table)


def _absent_parts(table: TableParts) -> Iterator[Problem]:
    """What a declaration needs of its records, and records of files do not have."""
    for field in table.fields:
        if field.part in (KEY, PARSED_KEY, TOPIC) or (field.part.startswith(HEADER) and field.part[7:] != FILE_HEADER):
            advice = f'Read the column from a field. The path of the file is RecordHeader("{FILE_HEADER}").'
            yield f"column {field.name} is read from {field.source}, which a record of a file does not have", advice
    if isinstance(table.apply_as_deletes, Tombstone):
        yield "apply_as_deletes is Tombstone(), but every record of a file has a value", _FIELD_ONLY
    if isinstance(table.where, HeaderIs | SchemaIs):
        yield f"where is {type(table.where).__name__}, but records of files have no such part", _FIELD_ONLY
    for option in ("start", "replay_from"):
        if getattr(table, option) is not None:
            yield f"{option} cannot be combined with files", f"Remove {option}, or move files out of the folder."


def _folder_problems(files: Files) -> Iterator[Problem]:
    if not files.folder.strip("/"):
        yield f"the folder of files is {files.folder!r}", "Name the folder, for example measurements."
    if "/" in files.names or not files.names:
        message = f"names of files is {files.names!r}, but it must match the name of a file, without its folders"
        yield message, 'Write, for example: names="*.json.gz"'
    if files.settle < timedelta(0):
        yield "settle is negative", "Write timedelta(0) if files are renamed into the folder when they are complete."
    if files.batch_bytes < 1:
        yield f"batch_bytes is {files.batch_bytes}, but the minimum is 1", "Declare 1 or more."


def _line_problems(files: Files) -> Iterator[Problem]:
    if files.each not in _EACH:
        yield f"each is {files.each!r}", f"Write one of: {', '.join(_EACH)}."
    for option in ("header", "quoted_line_breaks"):
        if getattr(files, option) and files.each != "line":
            yield f"{option} is for lines, but each is {files.each!r}", f"Remove {option}."
    if "\n" in files.header:
        yield "header has more than one line", "Write the first line of the files, without its line break."


def _format_problems(table: TableParts, files: Files) -> Iterator[Problem]:
    if table.format.framed or table.has_changes or table.has_schemas:
        message = f"format {table.format.name} needs a registry or a connector, which write no files"
        yield message, "Declare the format of the lines, such as Json() or Csv(...)."
    elif files.each != "line" and table.format.name != "Json":
        yield f"format is {table.format.name}, but each {files.each} is JSON", "Remove format, or declare Json(...)."
