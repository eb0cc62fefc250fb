"""``publish --raw``: lines with key, value, headers, partition and time, sent as they are to any topic."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import typer

from lakehouse.cli.arguments import find_declared, select_topic
from lakehouse.cli.phases import progress_bar
from lakehouse.cli.table_session import broker
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.settings import Settings


class Sent(NamedTuple):
    """To which broker and topic records were sent, and how many it acknowledged: all of them."""

    address: str
    topic: str
    acknowledged: int


def send_raw(settings: "Settings", name: str, topic: str | None, file: str, rate: float | None) -> Sent:
    """Send the records of a file, or of standard input if it is ``-``, to the topic of a table or to any topic.

    Reads a file as a whole before it sends the first record. A second run sends the records a second time. Raises
    ``LakehouseError`` if a line is not a record, ``TopicError`` if the topic is missing, and what ``publish`` raises.
    """
    from lakehouse.kafka import PublishOptions, publish_raw, read_topic
    from lakehouse.kafka.raw_records import UnreadableLineError, read_raw_records

    topic = _topic_of(settings, name, topic)
    with open_lines(file) as lines, broker(settings) as address:
        partitions = read_topic(settings, topic).end.keys()
        try:
            total = None if file == "-" else sum(1 for _ in read_raw_records(lines, partitions))
            if total is not None:
                lines.seek(0)
            with progress_bar("Sending", total) as report_count:
                records = read_raw_records(lines, partitions)
                acknowledged = publish_raw(settings, topic, records, PublishOptions(rate, report_count))
        except UnreadableLineError as error:
            sent_text = f"Lines before it that were sent: {error.number - 1:,}" if file == "-" else "Nothing was sent"
            place = "standard input" if file == "-" else file
            raise LakehouseError(str(error), where=place, action=f"{sent_text}. Correct the line.") from None
    return Sent(address, topic, acknowledged)


def _topic_of(settings: "Settings", name: str, topic: str | None) -> str:
    """The topic of the declared table of that name, or the topic of that name."""
    from lakehouse.declaration.rules.topic_rules import TOPIC

    table = find_declared(settings, name)
    if table:
        selected = select_topic(table, topic)
        if selected.source:
            raise typer.BadParameter(f"{name} reads no topic", param_hint="TABLE")
        return selected.topic
    if not TOPIC.fullmatch(name) or topic is not None:
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
