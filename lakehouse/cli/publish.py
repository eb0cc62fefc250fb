"""``publish``: records to the topic of a table, checked first, or as they are to any topic."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, count, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, NamedTuple

import typer

from lakehouse.cli.arguments import (
    JsonOption,
    TopicOption,
    examples,
    find_declared,
    select_table,
    select_topic,
    starts_broker,
)
from lakehouse.cli.output import count_text, print_json, print_line, print_notice, progress_bar
from lakehouse.cli.table_session import broker, load_settings
from lakehouse.cli.topics import PartitionsOption
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.declaration import StreamTable
    from lakehouse.kafka.raw_records import RawRecord
    from lakehouse.settings import Settings

_CHUNK = 5_000  # lines that are decoded together
_SEND_ANYWAY = "Correct them, or send all lines with --force; the table stores rejected records with their reason."
_CORRECT = "Correct it. Nothing of a file was sent; of standard input, the lines before it were sent."
commands = typer.Typer()

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
        help="Subject of the schema at the registry, if it is not TOPIC_NAME-value: RECORD or TOPIC_NAME-RECORD.",
    ),
]


def require_records(table: "StreamTable", lines: Iterable[bytes], place: str) -> None:
    """Decode every line as declared; raise ``LakehouseError`` if any would be rejected.

    The error counts the lines by reason, with the first line of each. Lateness is not checked: it depends on when the
    broker receives a record. Lines that a schema encodes are not checked here, but when they are encoded.
    """
    if table.has_schemas:
        return
    examples: dict[str, str] = {}
    counts = dict[str, int]()
    total = 0
    for number, reason, detail in _verdicts(table, lines):
        total = number
        if reason:
            counts[reason] = counts.get(reason, 0) + 1
            examples.setdefault(reason, f"line {number}: {detail}")
    if counts:
        reasons = "; ".join(f"{reason}: {number:,} ({examples[reason]})" for reason, number in counts.items())
        raise LakehouseError(
            f"{sum(counts.values()):,} of {total:,} records would be rejected by table {table.name}: {reasons}",
            where=place,
            action=f"Nothing was sent. {_SEND_ANYWAY}",
        )


def checked_records(table: "StreamTable", lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines as they come; raise ``LakehouseError`` at the first line that would be rejected."""
    for number, line in enumerate(lines, 1):
        if not table.has_schemas:
            for _, reason, detail in _verdicts(table, [line], number):
                if reason:
                    raise LakehouseError(
                        f"Line {number:,} would be rejected by table {table.name}: {reason}: {detail}",
                        where="standard input",
                        action=f"Lines before it that were sent: {number - 1:,}. {_SEND_ANYWAY}",
                    )
        yield line


def _verdicts(
    table: "StreamTable", lines: Iterable[bytes], first: int = 1
) -> Iterator[tuple[int, str | None, str | None]]:
    """Number of each line; reason and detail if its record, as the table's format encodes it, would be rejected."""
    import pyarrow as pa

    from lakehouse.decoding.json_parsing import find_native
    from lakehouse.decoding.verdicts import decode_slices
    from lakehouse.kafka.publish import write_line

    rules, numbers = table.rules()._replace(lateness=None), count(first)
    rules = rules._replace(where=tuple(where for where in rules.where if where.path))  # lines have no headers
    writer, native = table.format.writer(), find_native()
    values = (write_line(writer, line, number, _CORRECT) for number, line in enumerate(lines, first))
    while chunk := list(islice(values, _CHUNK)):
        now = pa.array([time.time_ns() // 1000] * len(chunk), pa.int64())
        for decoded in decode_slices(pa.array(chunk, pa.binary()), now, rules, native):
            for rejection in _rejections(decoded.verdicts):
                yield next(numbers), *rejection


def _rejections(verdicts: "pa.Array") -> Iterator[tuple[str | None, str | None]]:
    """Why each record would be rejected, or the first of its rows that would be: reason and detail, or ``None``."""
    import pyarrow as pa

    from lakehouse.decoding.staged import DETAIL, NO_ROWS, REASON

    is_list = isinstance(verdicts, pa.ListArray)
    rows = verdicts.values if is_list else verdicts
    ends = [0, *accumulate(verdicts.value_lengths().to_pylist())] if is_list else range(len(rows) + 1)
    reasons, details = (rows.field(name).to_pylist() for name in (REASON, DETAIL))
    for begin, end in pairwise(ends):
        rejected = (row for row in range(begin, end) if reasons[row] and reasons[row] not in NO_ROWS)
        row = next(rejected, None)
        yield (None, None) if row is None else (reasons[row], details[row])


class Sent(NamedTuple):
    """To which broker and topic records were sent, and how many it acknowledged: all of them.

    ``dated`` is the number of records with a time of their own that the broker replaces by its own.
    """

    address: str
    topic: str
    acknowledged: int
    dated: int = 0


def send_raw(settings: "Settings", name: str, topic: str | None, file: str, rate: float | None) -> Sent:
    """Send the records of a file, or of standard input if it is ``-``, to the topic of a table or to any topic.

    Reads a file as a whole before it sends the first record. A second run sends the records a second time. Raises
    ``LakehouseError`` if a line is not a record, ``TopicError`` if the topic is missing, and what ``publish`` raises.
    """
    from lakehouse.kafka import PublishOptions, publish_raw, read_topic
    from lakehouse.kafka.raw_records import UnreadableLineError, read_raw_records

    topic = _topic_of(settings, name, topic)
    with open_lines(file) as lines, broker(settings) as address:
        state, times = read_topic(settings, topic), Counter[bool]()
        partitions = state.end.keys()
        try:
            total = None if file == "-" else sum(1 for _ in read_raw_records(lines, partitions))
            if total is not None:
                lines.seek(0)
            with progress_bar("Sending", total) as report_count:
                records = _count_times(read_raw_records(lines, partitions), times)
                acknowledged = publish_raw(settings, topic, records, PublishOptions(rate, report_count))
        except UnreadableLineError as error:
            sent_text = f"Lines before it that were sent: {error.number - 1:,}" if file == "-" else "Nothing was sent"
            place = "standard input" if file == "-" else file
            raise LakehouseError(str(error), where=place, action=f"{sent_text}. Correct the line.") from None
    return Sent(address, topic, acknowledged, 0 if state.producer_time else times[True])


def _count_times(records: "Iterable[RawRecord]", times: Counter[bool]) -> "Iterator[RawRecord]":
    """Yield the records; count in ``times`` whether each has a time of its own."""
    for record in records:
        times[record.milliseconds is not None] += 1
        yield record


def _topic_of(settings: "Settings", name: str, topic: str | None) -> str:
    """The topic of the declared table of that name, or the topic of that name."""
    from lakehouse.declaration.rules.source_rules import TOPIC_NAME

    table = find_declared(settings, name)
    if table:
        selected = select_topic(table, topic)
        if not selected.has_topics:
            raise typer.BadParameter(f"{name} reads no topic", param_hint="TABLE")
        return selected.topic
    if not TOPIC_NAME.fullmatch(name) or topic is not None:
        problem = f"{name!r} is not a declared table" + ("" if topic else ", nor a valid topic name")
        raise typer.BadParameter(problem, param_hint="TABLE")
    return name


@contextmanager
def open_lines(file: str) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input if it is ``-``; one that cannot be read twice is wrong usage."""
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - an error within the caller's block is not one of the file
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}", param_hint="FILE") from None
    with stream:
        if not stream.seekable():
            raise typer.BadParameter(f"{file} can be read only once; for standard input, write -", param_hint="FILE")
        yield stream


@commands.command(
    epilog=examples(
        "lakehouse publish temperatures readings.jsonl",
        "cat readings.jsonl | lakehouse publish temperatures -",
        "lakehouse publish temperatures --generate stream --rate 500",
        """echo '{"key": "7", "value": "{}"}' | lakehouse publish raw-orders - --raw""",
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
    raw: Annotated[
        bool, typer.Option("--raw", help="Each line is a whole record. TABLE can also be a topic that no table reads.")
    ] = False,
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

    With --raw, a line is a JSON object with value and perhaps key, headers, partition and timestamp (milliseconds
    since 1970; the command says if the broker replaces it). Value, key and headers are texts, or bytes in base64 as
    value_base64, key_base64 and headers_base64. The topic must exist. Checks the form of all lines of a file first, and
    of standard input each line before it is sent; what the table would reject is sent, too.
    """
    if raw:
        _refuse_options({"--generate": generate, "--schema": schema, "--subject": subject, "--partitions": partitions})
        if file is None:
            raise typer.BadParameter("is missing; - reads standard input", param_hint="FILE")
        return _report(send_raw(load_settings(), table, topic, file, rate), as_json=json)
    from lakehouse.kafka import PublishOptions, create_topic, require_own_keys
    from lakehouse.kafka import publish as send

    if subject is not None and not subject.strip():
        raise typer.BadParameter("the name of the subject is empty", param_hint="--subject")
    settings = load_settings()
    stream_table = _select_topic_of(settings, table, topic)
    require_own_keys(stream_table)
    with (
        _records(stream_table, file, generate, check=not force) as (records, total),
        broker(settings, with_registry=stream_table.format.framed) as address,
        progress_bar("Sending", total) as report_count,
    ):
        create_topic(settings, stream_table, partitions)
        schema_text = _read_schema(schema) if schema else schema_of_samples(stream_table, generate)
        options = PublishOptions(rate, report_count, schema_text, subject)
        acknowledged = send(settings, stream_table, records, options)
    return _report(Sent(address, stream_table.topic, acknowledged), as_json=json)


def _refuse_options(values: Mapping[str, object]) -> None:
    for option in (name for name, value in values.items() if value is not None):
        raise typer.BadParameter("cannot be used with --raw", param_hint=option)


def _select_topic_of(settings: "Settings", table: str, topic: str | None) -> "StreamTable":
    stream_table = select_topic(select_table(settings, table, _RAW_ADVICE), topic)
    if not stream_table.has_topics:
        raise typer.BadParameter(f"it reads {stream_table.topic_text}, not a topic", param_hint="TABLE")
    return stream_table


_RAW_ADVICE = "For a topic that no table reads, add --raw. "


def _report(sent: Sent, *, as_json: bool) -> None:
    if as_json:
        return print_json({"bootstrap_servers": sent.address, "topic": sent.topic, "acknowledged": sent.acknowledged})
    if sent.dated:
        fact = f"topic {sent.topic} has message.timestamp.type=LogAppendTime"
        print_notice(f"The broker replaced {count_text(sent.dated, 'timestamp')} by the time of arrival: {fact}.")
    return print_line(f"{count_text(sent.acknowledged, 'record')} acknowledged by {sent.address}, topic {sent.topic}.")


@contextmanager
def _records(
    table: "StreamTable", file: str | None, generate: str | None, *, check: bool
) -> Iterator[tuple[Iterable[bytes], int | None]]:
    """The records to send, and their number if it is known: lines of a file, or of standard input, or samples."""
    if (file is None) == (generate is None):
        raise typer.BadParameter("use either a file or --generate", param_hint="FILE")
    if generate is not None:
        yield _samples(table, generate), sum(1 for _ in _samples(table, generate))
    elif file == "-":
        with open_lines(file) as lines:
            values = (line.removesuffix(b"\n") for line in lines)
            yield checked_records(table, values) if check else values, None
    else:
        if check:
            with open_lines(str(file)) as unchecked_lines:
                require_records(table, unchecked_lines, str(file))
        with open_lines(str(file)) as file_lines:
            total = sum(1 for _ in file_lines)
        with open_lines(str(file)) as file_lines:
            yield (line.removesuffix(b"\n") for line in file_lines), total


def _samples(table: "StreamTable", kind: str) -> Iterable[bytes]:
    if table.samples is None:
        raise typer.BadParameter(f"table {table.name} declares no samples", param_hint="--generate")
    return table.samples.stream() if kind == "stream" else table.samples.update()


def schema_of_samples(table: "StreamTable", kind: str | None) -> str | None:
    """The schema that encodes samples of a kind, if they have one."""
    from lakehouse.declaration.samples import AvroSamples

    return table.samples.schemas.get(kind or "") if isinstance(table.samples, AvroSamples) else None


def _read_schema(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is not UTF-8", param_hint="--schema") from None
