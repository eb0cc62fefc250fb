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
from lakehouse_tests.unit.declaration.advice.example import Example, of_table, option
from lakehouse_tests.unit.declaration.ratings import column, with_columns

of_files = partial(with_columns, source=Files("ratings"))
of_source = partial(option, of_files, "")
of_files_option = partial(option, lambda **part: of_files(source=Files("ratings", **part)), "")
of_generated = partial(option, lambda **part: of_files(source=Generated(**part)), "")
FIELD = "These records have a value alone: decide by a field, with FieldIs(...)."
FILE_NAME = 'Read the column from a field. The path of a file is RecordHeader("file").'
EXAMPLES = [
    of_table("source is missing", 'Add topic="...", or source=... to it.', topic=["", "ratings"]),
    Example(
        "topic and source are both declared",
        "Remove topic: it is short for source=Topic(...).",
        with_columns(topic="ratings", source=Files("ratings")),
        of_files(),
        with_columns(),
    ),
    of_source(
        "the folder of files is ''",
        "Name the folder, for example measurements.",
        source=[Files(""), Files("measurements")],
    ),
    of_files_option(
        "names of files is 'a/*.json', but it must match the name of a file, without its folders",
        'Write, for example: names="*.json.gz"',
        names=["a/*.json", "*.json.gz"],
    ),
    of_files_option(
        "settle is negative",
        "Write timedelta(0) if files are renamed into the folder when they are complete.",
        settle=[timedelta(seconds=-1), timedelta(0)],
    ),
    of_files_option("batch_bytes is 0, but the minimum is 1", "Declare 1 or more.", batch_bytes=[0, 1]),
    of_source(
        "header is for lines, but each is 'element'",
        "Remove header.",
        source=[Files("ratings", each="element", header="id,time"), Files("ratings", each="element")],
    ),
    of_source(
        r"header has '\u20ac', which encoding 'latin-1' cannot write",
        "Correct the header, or the encoding of the format.",
        of_files(source=Files("ratings", header="id,€"), format=Json(encoding="iso8859-15")),
        format=Json(encoding="latin-1"),
        source=[Files("ratings", header="id,€"), Files("ratings", header="id,EUR")],
    ),
    of_files_option(
        "title_lines is -1, but the minimum is 0",
        "Declare how many lines are left out.",
        title_lines=[-1, 1],
    ),
    of_files_option(
        "header has more than one line",
        "Write the first line of the files, without its line break.",
        header=["id,time\n", "id,time"],
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
    of_source(
        "deletes has Tombstone(), but every record has a value",
        FIELD,
        deletes=[Deletes(when=Tombstone()), Deletes(when=FieldIs("op", ["d"]))],
    ),
    Example(
        "where has HeaderIs, but its records have no such part",
        FIELD,
        of_files(where=HeaderIs("kind", ["rating"])),
        of_files(),
    ),
    of_source(
        "the table of TableRows is ''",
        "Write the name of a table, or its path.",
        source=[TableRows(""), TableRows("movies"), TableRows("/data/movies")],
    ),
    of_source(
        "the table reads ratings_changes, which is a table of its own",
        "Read another table.",
        source=[TableRows("ratings_changes"), TableRows("movies_changes")],
    ),
    Example(
        "format is Csv, but each record is JSON",
        "Remove format, or declare Json(...).",
        of_files(source=Generated(), format=Csv(columns=["id", "time", "stars"])),
        of_files(source=Generated()),
    ),
    of_generated("partitions of generated records is 0, but the minimum is 1", "Declare 1 or more.", partitions=[0, 1]),
    of_generated(
        "rate of generated records is 1,000,000,001, but the maximum is 1,000,000,000",
        "Declare less.",
        rate=[1_000_000_001, 1_000_000_000],
    ),
    of_generated(
        "since has no zone: 2026-01-31 00:00:00",
        "Write, for example: since=datetime(2026, 1, 31, tzinfo=UTC)",
        since=[datetime(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC)],
    ),
    of_generated(
        "since is 1969-12-31 00:00:00+00:00, but the first time is 1970-01-01 00:00:00+00:00",
        "Declare a later time.",
        since=[datetime(1969, 12, 31, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)],
    ),
    of_source(
        "generated records have no fields",
        "Declare at least one, or remove fields.",
        source=[Generated(fields={}), Generated(fields={"id": Counter()}), Generated()],
    ),
    of_generated(
        "the choice of field stars has no values",
        "Name at least one.",
        fields=[{"stars": Choice([])}, {"stars": Choice([1])}],
    ),
    of_generated(
        "modulo of field id is 0, but the minimum is 1",
        "Declare 1 or more.",
        fields=[{"id": Counter(modulo=0)}, {"id": Counter(modulo=1)}],
    ),
]
