"""Send records to a topic, each of them exactly once while this process lives."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError

from lakehouse.declaration import StreamTable
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.format import (
    NO_SCHEMAS,
    RegisteredSchema,
    Schemas,
    UnusableSchemaError,
    UnwritableError,
    WriterSchema,
)
from lakehouse.decoding.formats.json.format import JsonParser
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.record_parts import INDEX, KEY, PARSED_KEY, VALUE
from lakehouse.decoding.values import convert
from lakehouse.errors import TopicError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.kafka.raw_records import RawRecord
from lakehouse.kafka.registry_client import Registry, registry, writer_schema_of
from lakehouse.kafka.state import create_topic
from lakehouse.settings import Settings

PRODUCER_ARGUMENTS = {
    "acks": "all",
    "enable_idempotence": True,
    "compression_type": "zstd",
    "linger_ms": 20,
    "max_batch_size": 256 * 1024,
}
_STALL_SECONDS = 15.0
_SENDS_PER_YIELD = 200
"""Records that are sent before the acknowledgements are processed."""
_JSON = JsonParser()
_CORRECT = (
    "The lines before it were sent. Correct this line, or choose another schema with --schema if the format has any."
)


@dataclass(frozen=True)
class PublishOptions:
    """How to publish: at most ``rate`` records per second; ``on_progress`` gets the number of acknowledged records.

    ``schema`` is the text of the schema by which records are written, if their format has any. ``subject`` is the
    subject of the registry under which it is, by default ``TOPIC-value``.
    """

    rate: float | None = None
    on_progress: Callable[[int], None] | None = None
    schema: str | None = None
    subject: str | None = None


def publish(
    settings: Settings,
    table: StreamTable,
    lines: Iterable[bytes],
    options: PublishOptions = PublishOptions(),
) -> int:
    """Send each line as the value of one record and return how many the broker acknowledged: all of them.

    For a table of JSON, a line keeps its bytes except the line end. For another format, a line is a JSON object that
    the format writes, by a schema if it needs one (see ``writing``). The key of the record is the table's key as text,
    so that the records of one row stay in one partition; without a table key or a readable line it is null. Creates a
    missing topic. A second run sends the records a second time.

    Raises ``BrokerError`` if the broker acknowledges nothing for 15 seconds, and ``TopicError`` if a line is too long
    for it. Records that it acknowledged before stay in the topic.
    """
    require_own_keys(table)
    write, parser = _make_value_writer(settings, table, options)
    create_topic(settings, table)
    keys = key_fields(table)
    values = (write_line(write, line, number) for number, line in enumerate(lines, 1))
    records = (RawRecord(value, record_key(value, keys, parser)) for value in values)
    return publish_raw(settings, table.topic, records, options)


def publish_raw(
    settings: Settings, topic: str, records: Iterable[RawRecord], options: PublishOptions = PublishOptions()
) -> int:
    """Send records as they are to a topic that exists; returns and raises what ``publish`` does."""

    async def send(clients: Clients) -> int:
        async with clients.open(AIOKafkaProducer, **PRODUCER_ARGUMENTS) as producer:
            return await _Sender(producer, topic, options).send(records)

    return ask(settings, None, send)


def _make_value_writer(
    settings: Settings, table: StreamTable, options: PublishOptions
) -> tuple[Callable[[bytes], bytes], Parser]:
    """Return what ``choose_value_writer`` returns; only a format with a frame needs a registry."""
    for option, value, is_used in (
        ("schema", options.schema, table.has_schemas),
        ("subject", options.subject, table.format.framed),
    ):
        if value is not None and not is_used:
            what = f"The format of the table takes no {option} from a registry"
            raise TopicError(what, where=f"table {table.name}", action=f"Omit the {option}.")
    if not table.format.framed:
        return table.format.writer(), table.format.parser()

    return choose_value_writer(settings, table, options.schema, options.subject)


def write_line(write: Callable[[bytes], bytes], line: bytes, number: int, action: str = _CORRECT) -> bytes:
    """Return a line, without its line end, as the value of a record; ``TopicError`` if the format cannot write it."""
    try:
        return write(line.removesuffix(b"\n").removesuffix(b"\r"))
    except UnwritableError as error:
        raise TopicError(
            f"Line {number:,} cannot be written: {error}",
            action=action,
        ) from None


def require_own_keys(table: StreamTable) -> None:
    """Refuse a table that reads the key of a record, or has a key column outside of its value.

    ``publish`` generates the key of a record, and lines contain only its value.
    """
    for column in table.record_columns:
        part = column.field.place.part
        if part in (KEY, PARSED_KEY) or (part not in (VALUE, INDEX) and column.name in table.key):
            raise TopicError(
                f"Column {column.name} is the {column.field.source}, which lines do not contain",
                where=f"table {table.name}",
                action="Nothing was sent. Send its records with a Kafka client.",
            )


class _Sender:
    """Sends records, and keeps the number of sent and acknowledged records and the first failure."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, options: PublishOptions) -> None:
        self._producer = producer
        self._topic = topic
        self._options = options
        self._sent_count = 0
        self._acknowledged_count = 0
        self._failure: BaseException | None = None

    async def send(self, records: Iterable[RawRecord]) -> int:
        start_time = time.monotonic()
        for record in records:
            if self._options.rate:
                await self._wait_until(start_time + self._sent_count / self._options.rate)
            await self._send_record(record)
            if self._sent_count % _SENDS_PER_YIELD == 0:
                await asyncio.sleep(0)
            self._require_no_failure()
        await self._drain()
        return self._acknowledged_count

    async def _send_record(self, record: RawRecord) -> None:
        value, key, headers, partition, milliseconds = record
        try:
            future = await self._producer.send(self._topic, value, key, partition, milliseconds, list(headers))
        except MessageSizeTooLargeError:
            parts = [value or b"", key or b"", *(part for name, header in headers for part in (name.encode(), header))]
            size = sum(map(len, parts))
            fact = f"Record {self._sent_count + 1} has {size} bytes, more than the broker accepts"
            place = f"topic {self._topic}"
            action = "The records before it were sent. Shorten this one."
            raise TopicError(fact, where=place, action=action) from None
        future.add_done_callback(self._on_acknowledgement)
        self._sent_count += 1

    async def _wait_until(self, send_time: float) -> None:
        await asyncio.sleep(max(0.0, send_time - time.monotonic()))

    def _on_acknowledgement(self, future: "asyncio.Future[Any]") -> None:
        failure = None if future.cancelled() else future.exception()
        if failure is not None or future.cancelled():
            self._failure = self._failure or failure
            return
        self._acknowledged_count += 1
        if self._options.on_progress:
            self._options.on_progress(self._acknowledged_count)

    async def _drain(self) -> None:
        """Wait for every acknowledgement, as long as some arrive."""
        while self._acknowledged_count < self._sent_count:
            acknowledged_before = self._acknowledged_count
            await asyncio.wait([asyncio.ensure_future(self._producer.flush())], timeout=_STALL_SECONDS)
            self._require_no_failure()
            if self._acknowledged_count == acknowledged_before < self._sent_count:
                raise TimeoutError

    def _require_no_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def key_fields(table: StreamTable) -> tuple[Field, ...]:
    """The rules for the fields of the key of a table; those of a whole record, if it has many rows."""
    fields = {
        field.name: field
        for field in table.fields
        if not table.has_elements or (field.place.of_parent and not field.place.level)
    }
    return tuple(fields[name] for name in table.key if name in fields)


def record_key(value: bytes, fields: tuple[Field, ...], parser: Parser = _JSON) -> bytes | None:
    """Return the values of the key fields as text, joined by ``|``.

    Returns ``None`` if the record cannot be read, and for a log table, which has no key.
    """
    if not fields:
        return None
    try:
        row = convert(parser(value), fields)
    except Rejection:
        return None
    return "|".join(_text(row[field.name]) for field in fields).encode()


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def choose_value_writer(
    settings: Settings, table: StreamTable, schema: str | None, subject: str | None = None
) -> tuple[Callable[[bytes], bytes], Parser]:
    """Return the function that turns a line into the value of a record, and the one that parses it again.

    The schema is registered under ``subject``, by default ``TOPIC-value``: ``schema``, or the newest one of that
    subject, or one generated from the declaration. Raises ``RegistryError`` if the registry refuses it as incompatible
    with the schemas before it, and ``TopicError`` if no value can be written by it.
    """
    subject, record_format = subject or f"{table.topic}-value", table.format
    with registry(settings) as client:
        try:
            schema_id, writer_schema = _choose_schema(client, subject, schema, table)
        except UnusableSchemaError as error:
            raise TopicError(
                f"The schema cannot be used for writing: {error}",
                where=f"subject {subject}",
                action="Nothing was sent. Name another schema with --schema FILE.",
            ) from None
    schemas = Schemas({schema_id: writer_schema}, {}) if writer_schema else NO_SCHEMAS
    return record_format.writer(schema_id, writer_schema), record_format.parser(schemas)


def _choose_schema(
    client: Registry, subject: str, text: str | None, table: StreamTable
) -> tuple[int, WriterSchema | None]:
    """Return the id of the schema for the records, and the schema itself if values are written by it."""
    record_format = table.format
    newest_id = None if text else client.newest_id(subject)
    if newest_id is not None:
        newest_schema = writer_schema_of(client, newest_id, record_format) if record_format.needs_schemas else None
        if newest_schema or not record_format.needs_schemas:
            return newest_id, newest_schema
    if text is None and record_format.needs_schemas and table.has_elements:
        raise UnusableSchemaError("a declaration with rows_from does not describe whole records")
    text = text or record_format.declared_schema(table.name, table.fields)
    kind = record_format.schema_kind or ""
    schema = record_format.writer_schema(RegisteredSchema(text, (), kind)) if record_format.needs_schemas else None
    return client.register(subject, text, kind), schema
