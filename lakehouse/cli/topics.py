"""Verbs that speak to the broker: ``topics`` and ``publish``."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import typer

from lakehouse.cli.arguments import JsonOption, TablesArgument, chosen_table, chosen_tables, examples
from lakehouse.cli.output import print_json, print_table, say
from lakehouse.cli.phases import bar
from lakehouse.cli.record_check import checked_records, require_records
from lakehouse.cli.table_session import broker, load_settings
from lakehouse.errors import TopicError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.settings import Settings

verbs = typer.Typer()

PartitionsOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Partitions of a topic that is created now; default: as declared."),
]


@verbs.command(epilog=examples("lakehouse topics", "lakehouse topics --create", "lakehouse topics --json"))
def topics(
    table: TablesArgument = None,
    create: Annotated[bool, typer.Option("--create", help="Create the topics that are missing.")] = False,
    partitions: PartitionsOption = None,
    json: JsonOption = False,
) -> None:
    """Show the topics of the declared tables; create those that are missing with --create."""
    from lakehouse.kafka import create_topic

    settings = load_settings()
    chosen = chosen_tables(settings, table)
    if partitions and not create:
        raise typer.BadParameter("goes with --create", param_hint="--partitions")
    with broker(settings) as address:
        if create:
            for each in chosen:
                create_topic(settings, each, partitions)
        found = [_describe(settings, each) for each in chosen]
    if json:
        return print_json({"bootstrap_servers": address, "topics": found})
    print_table(list(found[0]), [list(topic.values()) for topic in found], title=f"Broker {address}")
    return None


def _describe(settings: "Settings", table: "StreamTable") -> dict[str, object]:
    from lakehouse.kafka import look

    try:
        state = look(settings, table.topic)
    except TopicError:
        return {"topic": table.topic, "table": table.name, "exists": False} | dict.fromkeys(_FIGURES)
    values = (len(state.end), sum(state.earliest.values()), sum(state.end.values()), state.producer_time)
    return {"topic": table.topic, "table": table.name, "exists": True} | dict(zip(_FIGURES, values, strict=True))


_FIGURES = ("partitions", "earliest_offsets", "end_offsets", "producer_time")


FileArgument = Annotated[
    str | None, typer.Argument(metavar="FILE", help="JSON lines, one record each; - reads standard input.")
]
GenerateOption = Annotated[
    Literal["stream", "update"] | None,
    typer.Option(help="Send the table's samples instead: new records, or changes to rows that exist."),
]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="Of a table of Avro: write by this schema, and register it first.",
    ),
]


@verbs.command(
    epilog=examples(
        "lakehouse publish temperatures readings.jsonl",
        "cat readings.jsonl | lakehouse publish temperatures -",
        "lakehouse publish temperatures --generate stream --rate 500",
    )
)
def publish(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The declared table whose topic gets the records.")],
    file: FileArgument = None,
    generate: GenerateOption = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most so many records a second.")] = None,
    schema: SchemaOption = None,
    partitions: PartitionsOption = None,
    force: Annotated[bool, typer.Option("--force", help="Send lines that the table would reject, too.")] = False,
    json: JsonOption = False,
) -> None:
    """Send records to the topic of a table, which is created where it is missing.

    The lines of a JSON file are checked first. If one would be rejected, nothing is sent without --force, and the
    reasons are shown. Lines of standard input are sent up to the first such line. Lateness is not checked. Lines for
    Avro are checked only as each is written: those before a wrong line are sent.

    The bytes of each line are sent as they are; of a table of Avro each is an object of JSON, and is written by
    --schema, else by the newest schema of the topic, else by one that follows from the declaration. The broker
    acknowledges every record, once, even where sending was repeated. A file that is sent again right after itself
    changes no row of a table with a key; in a log table each line is one more row.
    """
    from lakehouse.kafka import PublishOptions, create_topic, require_own_keys
    from lakehouse.kafka import publish as send

    settings = load_settings()
    chosen = chosen_table(settings, table)
    require_own_keys(chosen)
    with (
        _records(chosen, file, generate, check=not force) as records,
        broker(settings, with_registry=chosen.format.framed) as address,
        bar("Sending", records.total) as at,
    ):
        create_topic(settings, chosen, partitions)
        text = _text(schema) if schema else schema_of_samples(chosen, generate)
        acknowledged = send(settings, chosen, records.lines, PublishOptions(rate, at, text))
    if json:
        return print_json({"bootstrap_servers": address, "topic": chosen.topic, "acknowledged": acknowledged})
    return say(f"{acknowledged:,} records acknowledged by {address}, topic {chosen.topic}.")


@dataclass(frozen=True)
class _Records:
    """Lines to send, and how many there are, where that can be told beforehand."""

    lines: Iterable[bytes]
    total: int | None


@contextmanager
def _records(table: "StreamTable", file: str | None, generate: str | None, *, check: bool) -> Iterator[_Records]:
    """The records to send: lines of a file or of standard input, or samples, which need no check."""
    if (file is None) == (generate is None):
        raise typer.BadParameter("give either a file or --generate", param_hint="FILE")
    if generate is not None:
        yield _Records(_samples(table, generate), sum(1 for _ in _samples(table, generate)))
    elif file == "-":
        lines = (line.removesuffix(b"\n") for line in sys.stdin.buffer)
        yield _Records(checked_records(table, lines) if check else lines, None)
    else:
        if check:
            with _open(str(file)) as checked:
                require_records(table, checked, str(file))
        with _open(str(file)) as counted:
            total = sum(1 for _ in counted)
        with _open(str(file)) as opened:
            yield _Records((line.removesuffix(b"\n") for line in opened), total)


def _samples(table: "StreamTable", kind: str) -> Iterable[bytes]:
    if table.samples is None:
        raise typer.BadParameter(f"table {table.name} declares no samples", param_hint="--generate")
    return table.samples.stream() if kind == "stream" else table.samples.update()


def schema_of_samples(table: "StreamTable", kind: str | None) -> str | None:
    """The schema by which samples of a kind are written, where they have any."""
    from lakehouse.declaration import AvroSamples

    return table.samples.schemas.get(kind or "") if isinstance(table.samples, AvroSamples) else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is not UTF-8", param_hint="--schema") from None


def _open(file: str) -> BinaryIO:
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="FILE") from None
