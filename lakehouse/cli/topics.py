"""Commands that talk to the broker: ``topics`` and ``publish``."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from lakehouse.cli.arguments import (
    JsonOption,
    TablesArgument,
    TopicOption,
    examples,
    select_table,
    select_tables,
    select_topic,
)
from lakehouse.cli.help_texts import starts_broker
from lakehouse.cli.output import count_text, print_json, print_line, print_table
from lakehouse.cli.phases import progress_bar
from lakehouse.cli.record_check import checked_records, require_records
from lakehouse.cli.table_session import broker, load_settings
from lakehouse.errors import TopicError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.settings import Settings

commands = typer.Typer()

PartitionsOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Partitions of a topic that is created; default: as declared."),
]


@commands.command(epilog=examples("lakehouse topics", "lakehouse topics --create", "lakehouse topics --json"))
@starts_broker
def topics(
    table: TablesArgument = None,
    create: Annotated[bool, typer.Option("--create", help="Create missing topics.")] = False,
    partitions: PartitionsOption = None,
    json: JsonOption = False,
) -> None:
    """Show the topics of the declared tables; --create creates missing ones that a declaration names.

    earliest_offsets and end_offsets are sums over the partitions. producer_time is true if the times of records come
    from producers, not from the broker.
    """
    from lakehouse.ingest.topics import named_topics
    from lakehouse.kafka import create_topic

    settings = load_settings()
    stream_tables = [selected for selected in select_tables(settings, table) if not selected.source]
    if partitions and not create:
        raise typer.BadParameter("needs --create", param_hint="--partitions")
    with broker(settings) as address:
        if create:
            for part in (part for stream_table in stream_tables for part in named_topics(stream_table)):
                create_topic(settings, part, partitions)
        topic_states = [state for stream_table in stream_tables for state in _describe_each(settings, stream_table)]
    if json:
        return print_json({"bootstrap_servers": address, "topics": topic_states})
    if not topic_states:
        return print_line("None of these tables reads a topic.")
    print_table(list(topic_states[0]), [list(state.values()) for state in topic_states], title=f"Broker {address}")
    return None


def _describe_each(settings: "Settings", table: "StreamTable") -> "list[dict[str, object]]":
    """The topics of a table; a pattern that no topic matches is shown as a topic that does not exist."""
    from lakehouse.ingest.topics import split_by_topic

    try:
        return [_describe(settings, part) for part in split_by_topic(settings, table)]
    except TopicError:
        return [{"topic": table.topic_text, "table": table.name, "exists": False} | dict.fromkeys(_FIGURES)]


def _describe(settings: "Settings", table: "StreamTable") -> dict[str, object]:
    from lakehouse.kafka import read_topic

    try:
        state = read_topic(settings, table.topic)
    except TopicError:
        return {"topic": table.topic, "table": table.name, "exists": False} | dict.fromkeys(_FIGURES)
    values = (len(state.end), sum(state.earliest.values()), sum(state.end.values()), state.producer_time)
    return {"topic": table.topic, "table": table.name, "exists": True} | dict(zip(_FIGURES, values, strict=True))


_FIGURES = ("partitions", "earliest_offsets", "end_offsets", "producer_time")


FileArgument = Annotated[
    str | None, typer.Argument(metavar="FILE", help="JSON lines, one record per line; - reads standard input.")
]
GenerateOption = Annotated[
    Literal["stream", "update"] | None,
    typer.Option(help="Send the table's samples instead: new records, or updates of existing rows."),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="For a table in Avro or Protobuf: register this schema, and encode the records with it.",
    ),
]
SubjectOption = Annotated[
    str | None,
    typer.Option(
        metavar="SUBJECT",
        help="Subject of the schema at the registry, if it is not TOPIC-value: RECORD or TOPIC-RECORD.",
    ),
]


@commands.command(
    epilog=examples(
        "lakehouse publish temperatures readings.jsonl",
        "cat readings.jsonl | lakehouse publish temperatures -",
        "lakehouse publish temperatures --generate stream --rate 500",
    )
)
@starts_broker
def publish(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The declared table whose topic receives the records.")],
    file: FileArgument = None,
    generate: GenerateOption = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, metavar="N", help="Send at most N records per second.")
    ] = None,
    schema: SchemaOption = None,
    subject: SubjectOption = None,
    partitions: PartitionsOption = None,
    topic: TopicOption = None,
    force: Annotated[bool, typer.Option("--force", help="Also send lines that the table would reject.")] = False,
    json: JsonOption = False,
) -> None:
    """Send records to the topic of a table. A missing topic is created.

    Checks the lines of a JSON file first. If one would be rejected, shows the reasons and sends nothing without
    --force. Sends lines of standard input up to the first such line. Does not check lateness. Lines for Avro
    and Protobuf are checked only when they are encoded: the lines before an invalid one are sent.

    Sends the bytes of each line as they are. For Avro and Protobuf, each line is a JSON object. It is encoded with
    --schema, or else the newest schema of the topic or of --subject, or else a schema derived from the declaration.
    The broker acknowledges every record exactly once, even after a retry. Sending a file again right after itself
    changes no row of a table with a key. A log table gets one more row per line.
    """
    from lakehouse.kafka import PublishOptions, create_topic, require_own_keys
    from lakehouse.kafka import publish as send

    if subject is not None and not subject.strip():
        raise typer.BadParameter("the name of the subject is empty", param_hint="--subject")
    settings = load_settings()
    stream_table = select_topic(select_table(settings, table), topic)
    require_own_keys(stream_table)
    with (
        _records(stream_table, file, generate, check=not force) as records,
        broker(settings, with_registry=stream_table.format.framed) as address,
        progress_bar("Sending", records.total) as report_count,
    ):
        create_topic(settings, stream_table, partitions)
        schema_text = _read_schema(schema) if schema else schema_of_samples(stream_table, generate)
        options = PublishOptions(rate, report_count, schema_text, subject)
        acknowledged = send(settings, stream_table, records.lines, options)
    if json:
        return print_json({"bootstrap_servers": address, "topic": stream_table.topic, "acknowledged": acknowledged})
    return print_line(f"{count_text(acknowledged, 'record')} acknowledged by {address}, topic {stream_table.topic}.")


@dataclass(frozen=True)
class _Records:
    """Lines to send, and their number if it is known beforehand."""

    lines: Iterable[bytes]
    total: int | None


@contextmanager
def _records(table: "StreamTable", file: str | None, generate: str | None, *, check: bool) -> Iterator[_Records]:
    """The records to send: lines of a file or of standard input, or samples, which are not checked."""
    if (file is None) == (generate is None):
        raise typer.BadParameter("use either a file or --generate", param_hint="FILE")
    if generate is not None:
        yield _Records(_samples(table, generate), sum(1 for _ in _samples(table, generate)))
    elif file == "-":
        lines = (line.removesuffix(b"\n") for line in sys.stdin.buffer)
        yield _Records(checked_records(table, lines) if check else lines, None)
    else:
        if check:
            with _open(str(file)) as unchecked_lines:
                require_records(table, unchecked_lines, str(file))
        with _open(str(file)) as file_lines:
            total = sum(1 for _ in file_lines)
        with _open(str(file)) as file_lines:
            yield _Records((line.removesuffix(b"\n") for line in file_lines), total)


def _samples(table: "StreamTable", kind: str) -> Iterable[bytes]:
    if table.samples is None:
        raise typer.BadParameter(f"table {table.name} declares no samples", param_hint="--generate")
    return table.samples.stream() if kind == "stream" else table.samples.update()


def schema_of_samples(table: "StreamTable", kind: str | None) -> str | None:
    """The schema that encodes samples of a kind, if they have one."""
    from lakehouse.declaration import AvroSamples

    return table.samples.schemas.get(kind or "") if isinstance(table.samples, AvroSamples) else None


def _read_schema(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is not UTF-8", param_hint="--schema") from None


def _open(file: str) -> BinaryIO:
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="FILE") from None
