"""The rules for ``source``: topics, files, another table or a generator, and what their records do not have."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta

from lakehouse.declaration.conditions import HeaderIs, SchemaIs, Tombstone
from lakehouse.declaration.sources import (
    FIRST_TIME,
    LATEST,
    Files,
    Generated,
    TableRows,
    Topic,
    TopicPattern,
    Topics,
    start_time,
)
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.generated import Choice
from lakehouse.decoding.generated import Counter as CounterField
from lakehouse.decoding.record_parts import FILE_HEADER, HEADER, KEY, PARSED_KEY, TOPIC

_MAX_RATE = 1_000_000_000  # positions of centuries fit into a BIGINT
_MAX_PARTITIONS = 1_000  # each commit names all of them
_MAX_TOPIC_PARTITIONS = 10_000  # Kafka refuses to create more in one request
_FIRST_DAY, _LAST_DAY = date(1970, 1, 1), date(9999, 12, 30)  # Dagster adds a day, and the last one of all is the 31st
_FIELD_ONLY = "These records have a value alone: decide by a field, with FieldIs(...)."
TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_OF_TOPIC = "Use up to 249 letters, digits, '.', '_' and '-', but neither '.' nor '..' alone."
_ONE_EACH = "Declare one table for each topic."
_START_TIME = 'Declare a time, such as start="2026-11-01T00:00:00Z", or remove start.'
_TIME_EXAMPLE = 'Write, for example: start="2026-11-01T00:00:00Z"'
_OFFSETS_EXAMPLE = "Write, for example: start={0: 1200, 1: 900}"
_PATTERN_EXAMPLE = 'Write, for example: source=TopicPattern("orders-.*")'


def source_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the source of a table, and with what its records do not have."""
    source = table.source
    if source is None:
        yield "source is missing", 'Add topic="...", or source=... to it.'
    elif table.topic and not (isinstance(source, Topic) and source.name == table.topic):
        yield "topic and source are both declared", "Remove topic: it is short for source=Topic(...)."
    elif isinstance(source, Topic | Topics | TopicPattern):
        yield from _topic_problems(table, source)
    elif isinstance(source, Files):
        yield from _folder_problems(source)
        yield from _line_problems(source)
        yield from header_problems(source.header, table.format.encoding)
        yield from _record_problems(table, source.each)
    elif isinstance(source, Generated):
        yield from _generator_problems(source)
        yield from _record_problems(table, "record")
    else:
        yield from _table_problems(table, source)
        yield from _record_problems(table, "row")


def _topic_problems(table: TableParts, source: Topic | Topics | TopicPattern) -> Iterator[Problem]:
    if isinstance(source, Topic):
        yield from _name_problems(source.name)
    else:
        yield from _pattern_problems(source.pattern) if isinstance(source, TopicPattern) else _names_problems(source)
        yield from _unordered(table)
    if not 0 < source.partitions <= _MAX_TOPIC_PARTITIONS:
        message = f"partitions is {source.partitions}, but must be between 1 and {_MAX_TOPIC_PARTITIONS}"
        yield message, "Kafka creates no more partitions of a topic at once. Declare a number between them."
    if source.replay_from and not _FIRST_DAY <= source.replay_from <= _LAST_DAY:
        message = f"replay_from is {source.replay_from}, but must be between {_FIRST_DAY} and {_LAST_DAY}"
        yield message, "Declare the first day of which the topic has records."
    yield from _start_problems(table)


def _name_problems(name: str) -> Iterator[Problem]:
    if not TOPIC_NAME.fullmatch(name):
        yield f"topic {name!r} is not a valid name in Kafka", _OF_TOPIC


def _pattern_problems(pattern: str) -> Iterator[Problem]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield f"TopicPattern: {pattern!r} is not a regular expression: {error}", _PATTERN_EXAMPLE
    if not pattern:
        yield "TopicPattern: the pattern is empty", _PATTERN_EXAMPLE


def _names_problems(topics: Topics) -> Iterator[Problem]:
    if not topics.names:
        yield "Topics has no names", 'Write, for example: source=Topics(["orders-eu", "orders-us"])'
    for name, count in Counter(topics.names).items():
        yield from _name_problems(name)
        if count > 1:
            yield f"Topics lists {name} twice", "List it once."


def _unordered(table: TableParts) -> Iterator[Problem]:
    """Options that need positions which can be compared, but those of several topics cannot."""
    if table.has_changes:
        message = f"format {table.format.name} cannot be combined with several topics"
        yield message, f"Positions in the logs of several databases cannot be compared. {_ONE_EACH}"
    if table.deletes.truncates:
        message = "truncates of deletes cannot be combined with several topics"
        yield message, f"A truncate in one topic would delete the rows of all. {_ONE_EACH}"
    if table.start == LATEST:
        message = 'start="latest" cannot be combined with several topics: one that appears later would lose records'
        yield message, _START_TIME


def _start_problems(table: TableParts) -> Iterator[Problem]:
    if isinstance(table.start, Mapping):
        yield from _position_problems(table.start)
        return
    try:
        time = start_time(table.start)
    except ValueError:
        yield f'start is {table.start!r}, which is neither "latest" nor a time in ISO 8601', _TIME_EXAMPLE
        return
    if time is not None:
        yield from _time_problems(time)


def _time_problems(time: datetime) -> Iterator[Problem]:
    if time.utcoffset() is None:
        yield f"start {time} has no time zone", f"It may mean several times. {_TIME_EXAMPLE}"
    elif time < FIRST_TIME:
        yield f"start {time} is before 1970", "Remove start: a new table begins at the first record of the topic."


def _position_problems(positions: Mapping[int, int]) -> Iterator[Problem]:
    if not positions:
        yield "start names no partition", _OFFSETS_EXAMPLE
    for partition, position in positions.items():
        if partition < 0:
            yield f"start names partition {partition}, but the first one is 0", _OFFSETS_EXAMPLE
        if position < 0:
            message = f"start: offset {position} of partition {partition} is negative"
            yield message, 'Name the first offset to merge. To begin at the end of the topic, write start="latest".'


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
    for option in ("header", "quoted_line_breaks", "title_lines", "total_lines"):
        value = getattr(files, option)
        if value and files.each != "line":
            yield f"{option} is for lines, but each is {files.each!r}", f"Remove {option}."
        if isinstance(value, int) and value < 0:
            yield f"{option} is {value}, but the minimum is 0", "Declare how many lines are left out."
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
    elif since is not None and since < FIRST_TIME:
        yield f"since is {since}, but the first time is {FIRST_TIME}", "Declare a later time."
    yield from _generated_field_problems(generated)


def _generated_field_problems(generated: Generated) -> Iterator[Problem]:
    if not generated.fields:
        yield "generated records have no fields", "Declare at least one, or remove fields."
    for name, part in generated.fields.items():
        if isinstance(part, Choice) and not part.values:
            yield f"the choice of field {name} has no values", "Name at least one."
        if isinstance(part, CounterField) and part.modulo is not None and part.modulo < 1:
            yield f"modulo of field {name} is {part.modulo}, but the minimum is 1", "Declare 1 or more."


def _record_problems(table: TableParts, each: str) -> Iterator[Problem]:
    if table.format.framed or table.has_changes or table.has_schemas:
        message = f"format {table.format.name} needs a registry or a connector, so it is for topics"
        yield message, "Declare the format of the lines, such as Json() or Csv(...)."
    elif each != "line" and table.format.name != "Json":
        yield f"format is {table.format.name}, but each {each} is JSON", "Remove format, or declare Json(...)."
    yield from _absent_parts(table)


def _absent_parts(table: TableParts) -> Iterator[Problem]:
    """What a declaration needs of its records, and they do not have."""
    headers = [f"{HEADER}{FILE_HEADER}"] if table.reads_files else []
    for field in table.fields:
        if field.place.part in (KEY, PARSED_KEY, TOPIC) or (
            field.place.part.startswith(HEADER) and field.place.part not in headers
        ):
            advice = f'Read the column from a field. The path of a file is RecordHeader("{FILE_HEADER}").'
            yield f"column {field.name} is read from {field.source}, which its records do not have", advice
    if isinstance(table.deletes.when, Tombstone):
        yield "deletes has Tombstone(), but every record has a value", _FIELD_ONLY
    for condition in table.conditions:
        if isinstance(condition, HeaderIs | SchemaIs):
            yield f"where has {type(condition).__name__}, but its records have no such part", _FIELD_ONLY
