"""The rules for ``source``: files, another table or a generator, and what their records do not have."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from lakehouse.declaration.conditions import HeaderIs, SchemaIs, Tombstone
from lakehouse.declaration.table_inputs import Files, Generated, TableRows
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.generated import Choice, Counter
from lakehouse.decoding.record_parts import FILE_HEADER, HEADER, KEY, PARSED_KEY, TOPIC

_MAX_RATE = 1_000_000_000  # positions of centuries fit into a BIGINT
_MAX_PARTITIONS = 1_000  # each commit names all of them
_FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_FIELD_ONLY = "These records have a value alone: decide by a field, with FieldIs(...)."


def source_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the source of a table, if it is not a topic."""
    if table.source is None:
        return
    if isinstance(table.source, Files):
        yield from _folder_problems(table.source)
        yield from _line_problems(table.source)
        yield from header_problems(table.source.header, table.format.encoding)
        yield from _format_problems(table, table.source.each)
    elif isinstance(table.source, Generated):
        yield from _generator_problems(table.source)
        yield from _format_problems(table, "record")
    else:
        yield from _table_problems(table, table.source)
        yield from _format_problems(table, "row")
    yield from _absent_parts(table)


def _absent_parts(table: TableParts) -> Iterator[Problem]:
    """What a declaration needs of its records, and they do not have."""
    headers = [f"{HEADER}{FILE_HEADER}"] if table.reads_files else []
    for field in table.fields:
        if field.part in (KEY, PARSED_KEY, TOPIC) or (field.part.startswith(HEADER) and field.part not in headers):
            advice = f'Read the column from a field. The path of a file is RecordHeader("{FILE_HEADER}").'
            yield f"column {field.name} is read from {field.source}, which its records do not have", advice
    if isinstance(table.apply_as_deletes, Tombstone):
        yield "apply_as_deletes is Tombstone(), but every record has a value", _FIELD_ONLY
    for condition in table.conditions:
        if isinstance(condition, HeaderIs | SchemaIs):
            yield f"where has {type(condition).__name__}, but its records have no such part", _FIELD_ONLY
    yield from _topic_options(table)


def _topic_options(table: TableParts) -> Iterator[Problem]:
    """Options that only a topic can have."""
    if table.gaps == "accept":
        advice = "Remove gaps. A person accepts what is gone: a folder or a store may only be away."
        yield 'gaps="accept" is for topics, from which records expire', advice
    for option in ("start", "replay_from"):
        if getattr(table, option) is not None:
            yield f"{option} needs a topic, but source is {type(table.source).__name__}", f"Remove {option}."


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
    for option in ("header", "quoted_line_breaks"):
        if getattr(files, option) and files.each != "line":
            yield f"{option} is for lines, but each is {files.each!r}", f"Remove {option}."
    if "\n" in files.header:
        yield "header has more than one line", "Write the first line of the files, without its line break."


def header_problems(header: str, encoding: str) -> Iterator[Problem]:
    """What is wrong with the first line of files whose lines are in an encoding."""
    try:
        header.encode(encoding)
    except UnicodeEncodeError as error:
        message = f"header has {header[error.start]!a}, which encoding {encoding!r} cannot write"
        yield message, "Correct the header, or the encoding of the format."
    except LookupError:
        return  # the rules of the format say so


def _table_problems(table: TableParts, rows: TableRows) -> Iterator[Problem]:
    if not rows.of.strip("/"):
        yield f"the table of TableRows is {rows.of!r}", "Write the name of a table, or its path."
    if rows.of in table.tables:
        yield f"the table reads {rows.of}, which is a table of its own", "Read another table."


def _generator_problems(generated: Generated) -> Iterator[Problem]:
    for option, maximum in (("rate", _MAX_RATE), ("partitions", _MAX_PARTITIONS), ("count", None)):
        number = getattr(generated, option)
        if number is not None and number < 1:
            yield f"{option} of generated records is {number}, but the minimum is 1", "Declare 1 or more."
        if number is not None and maximum and number > maximum:
            yield f"{option} of generated records is {number:,}, but the maximum is {maximum:,}", "Declare less."
    since = generated.since
    if since is not None and since.tzinfo is None:
        yield f"since has no zone: {since}", "Write, for example: since=datetime(2026, 1, 31, tzinfo=UTC)"
    elif since is not None and since < _FIRST_TIME:
        yield f"since is {since}, but the first time is {_FIRST_TIME}", "Declare a later time."
    yield from _generated_field_problems(generated)


def _generated_field_problems(generated: Generated) -> Iterator[Problem]:
    if not generated.fields:
        yield "generated records have no fields", "Declare at least one, or remove fields."
    for name, part in generated.fields.items():
        if isinstance(part, Choice) and not part.values:
            yield f"the choice of field {name} has no values", "Name at least one."
        if isinstance(part, Counter) and part.modulo is not None and part.modulo < 1:
            yield f"modulo of field {name} is {part.modulo}, but the minimum is 1", "Declare 1 or more."


def _format_problems(table: TableParts, each: str) -> Iterator[Problem]:
    if table.format.framed or table.has_changes or table.has_schemas:
        message = f"format {table.format.name} needs a registry or a connector, so it is for topics"
        yield message, "Declare the format of the lines, such as Json() or Csv(...)."
    elif each != "line" and table.format.name != "Json":
        yield f"format is {table.format.name}, but each {each} is JSON", "Remove format, or declare Json(...)."
