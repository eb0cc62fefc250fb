"""Sources other than topics: files, the rows of another table, and generated records."""

from datetime import UTC, datetime, timedelta
from functools import partial

from lakehouse.declaration import (
    Csv,
    Debezium,
    Deletes,
    FieldIs,
    Files,
    Generated,
    HeaderIs,
    Json,
    RecordHeader,
    TableRows,
    Tombstone,
)
from lakehouse.declaration.sources import Choice, Counter
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import column, with_columns

of_files = partial(with_columns, source=Files("ratings"))
FIELD = "These records have a value alone: decide by a field, with FieldIs(...)."
FILE_NAME = 'Read the column from a field. The path of a file is RecordHeader("file").'
EXAMPLES = [
    Example(
        "source is missing",
        'Add topic="...", or source=... to it.',
        with_columns(topic=""),
        with_columns(topic="ratings"),
        of_files(),
    ),
    Example(
        "topic and source are both declared",
        "Remove topic: it is short for source=Topic(...).",
        with_columns(topic="ratings", source=Files("ratings")),
        of_files(),
        with_columns(),
    ),
    Example(
        "the folder of files is ''",
        "Name the folder, for example measurements.",
        of_files(source=Files("")),
        of_files(source=Files("measurements")),
    ),
    Example(
        "names of files is 'a/*.json', but it must match the name of a file, without its folders",
        'Write, for example: names="*.json.gz"',
        of_files(source=Files("ratings", names="a/*.json")),
        of_files(source=Files("ratings", names="*.json.gz")),
    ),
    Example(
        "settle is negative",
        "Write timedelta(0) if files are renamed into the folder when they are complete.",
        of_files(source=Files("ratings", settle=timedelta(seconds=-1))),
        of_files(source=Files("ratings", settle=timedelta(0))),
    ),
    Example(
        "batch_bytes is 0, but the minimum is 1",
        "Declare 1 or more.",
        of_files(source=Files("ratings", batch_bytes=0)),
        of_files(source=Files("ratings", batch_bytes=1)),
    ),
    Example(
        "header is for lines, but each is 'element'",
        "Remove header.",
        of_files(source=Files("ratings", each="element", header="id,time")),
        of_files(source=Files("ratings", each="element")),
    ),
    Example(
        r"header has '\u20ac', which encoding 'latin-1' cannot write",
        "Correct the header, or the encoding of the format.",
        of_files(source=Files("ratings", header="id,€"), format=Json(encoding="latin-1")),
        of_files(source=Files("ratings", header="id,EUR"), format=Json(encoding="latin-1")),
        of_files(source=Files("ratings", header="id,€"), format=Json(encoding="iso8859-15")),
    ),
    Example(
        "header has more than one line",
        "Write the first line of the files, without its line break.",
        of_files(source=Files("ratings", header="id,time\n")),
        of_files(source=Files("ratings", header="id,time")),
    ),
    Example(
        "format Debezium needs a registry or a connector, so it is for topics",
        "Declare the format of the lines, such as Json() or Csv(...).",
        of_files(format=Debezium()),
        of_files(),
    ),
    Example(
        "format is Csv, but each element is JSON",
        "Remove format, or declare Json(...).",
        of_files(source=Files("ratings", each="element"), format=Csv(columns=["id", "time", "stars"])),
        of_files(source=Files("ratings", each="element")),
    ),
    Example(
        "column n is read from header n, which its records do not have",
        FILE_NAME,
        of_files(column("n", "STRING", source=RecordHeader("n"))),
        of_files(column("n", "STRING")),
        of_files(column("n", "STRING", source=RecordHeader("file"))),
    ),
    Example(
        "deletes has Tombstone(), but every record has a value",
        FIELD,
        of_files(deletes=Deletes(when=Tombstone())),
        of_files(deletes=Deletes(when=FieldIs("op", ["d"]))),
    ),
    Example(
        "where has HeaderIs, but its records have no such part",
        FIELD,
        of_files(where=HeaderIs("kind", ["rating"])),
        of_files(),
    ),
    Example(
        "the table of TableRows is ''",
        "Write the name of a table, or its path.",
        of_files(source=TableRows("")),
        of_files(source=TableRows("movies")),
        of_files(source=TableRows("/data/movies")),
    ),
    Example(
        "the table reads ratings_changes, which is a table of its own",
        "Read another table.",
        of_files(source=TableRows("ratings_changes")),
        of_files(source=TableRows("movies_changes")),
    ),
    Example(
        "format is Csv, but each record is JSON",
        "Remove format, or declare Json(...).",
        of_files(source=Generated(), format=Csv(columns=["id", "time", "stars"])),
        of_files(source=Generated()),
    ),
    Example(
        "partitions of generated records is 0, but the minimum is 1",
        "Declare 1 or more.",
        of_files(source=Generated(partitions=0)),
        of_files(source=Generated(partitions=1)),
    ),
    Example(
        "rate of generated records is 1,000,000,001, but the maximum is 1,000,000,000",
        "Declare less.",
        of_files(source=Generated(rate=1_000_000_001)),
        of_files(source=Generated(rate=1_000_000_000)),
    ),
    Example(
        "since has no zone: 2026-01-31 00:00:00",
        "Write, for example: since=datetime(2026, 1, 31, tzinfo=UTC)",
        of_files(source=Generated(since=datetime(2026, 1, 31))),
        of_files(source=Generated(since=datetime(2026, 1, 31, tzinfo=UTC))),
    ),
    Example(
        "since is 1969-12-31 00:00:00+00:00, but the first time is 1970-01-01 00:00:00+00:00",
        "Declare a later time.",
        of_files(source=Generated(since=datetime(1969, 12, 31, tzinfo=UTC))),
        of_files(source=Generated(since=datetime(1970, 1, 1, tzinfo=UTC))),
    ),
    Example(
        "generated records have no fields",
        "Declare at least one, or remove fields.",
        of_files(source=Generated(fields={})),
        of_files(source=Generated(fields={"id": Counter()})),
        of_files(source=Generated()),
    ),
    Example(
        "the choice of field stars has no values",
        "Name at least one.",
        of_files(source=Generated(fields={"stars": Choice([])})),
        of_files(source=Generated(fields={"stars": Choice([1])})),
    ),
    Example(
        "modulo of field id is 0, but the minimum is 1",
        "Declare 1 or more.",
        of_files(source=Generated(fields={"id": Counter(modulo=0)})),
        of_files(source=Generated(fields={"id": Counter(modulo=1)})),
    ),
]
