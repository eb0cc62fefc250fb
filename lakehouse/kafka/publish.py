"""Send records into a table's topic, each of them exactly once as long as this process lives."""

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
from lakehouse.decoding.formats.format import Parser, UnwritableError
from lakehouse.decoding.formats.json_format import JsonParser
from lakehouse.decoding.record_parts import KEY, VALUE
from lakehouse.decoding.values import convert
from lakehouse.errors import TopicError
from lakehouse.kafka.admin import create_topic
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection import ask
from lakehouse.settings import Settings

_SENDING = {
    "acks": "all",
    "enable_idempotence": True,
    "compression_type": "zstd",
    "linger_ms": 20,
    "max_batch_size": 256 * 1024,
}
_STALL_SECONDS = 15.0
_BREATH = 200
"""So many records are handed over before answers are looked at."""
_JSON = JsonParser()
_CORRECT = "Those before it were sent; correct it, or name another schema with --schema where it has any."


@dataclass(frozen=True)
class PublishOptions:
    """How to publish: at most ``rate`` records a second; ``on_progress`` is told how many are acknowledged.

    ``schema`` is the text of the one by which records are written, where their format has any.
    """

    rate: float | None = None
    on_progress: Callable[[int], None] | None = None
    schema: str | None = None


def publish(
    settings: Settings,
    table: StreamTable,
    lines: Iterable[bytes],
    options: PublishOptions = PublishOptions(),
) -> int:
    """Send each line as the value of one record and return how many the broker acknowledged: all of them.

    Of a table of JSON a line keeps its bytes but for the line end; of another format it is an object of JSON, which the
    format writes, by a schema if it needs one, as ``writing`` says. Its key is the table's key as text where there is
    one and the line can be read, so that the records of one row stay in one partition; else it has none. A missing
    topic is created. A second run sends the records a second time.

    Raises ``BrokerError`` where the broker acknowledges nothing for 15 seconds, ``TopicError`` where a line is
    too long for it; what it acknowledged before stays in the topic.
    """
    require_own_keys(table)
    writing = _writing_of(settings, table, options.schema)
    create_topic(settings, table)

    async def question(clients: Clients) -> int:
        async with clients.open(AIOKafkaProducer, **_SENDING) as producer:
            return await _Sending(producer, table, writing, options).send(lines)

    return ask(settings, None, question)


@dataclass(frozen=True)
class Writing:
    """How a line becomes the value of a record, and how that is parsed again."""

    write: Callable[[bytes], bytes]
    parser: Parser


def _writing_of(settings: Settings, table: StreamTable, schema: str | None) -> Writing:
    if schema is not None and not table.has_schemas:
        raise TopicError("Its records name no schema", where=f"table {table.name}", action="Leave the schema out.")
    if not table.format.framed:
        return Writing(table.format.writer(), table.format.parser())
    from lakehouse.kafka.writing import writing_of  # noqa: PLC0415 - what speaks to a registry is slow to import

    return Writing(*writing_of(settings, table, schema))


def written(write: Callable[[bytes], bytes], line: bytes, number: int, action: str = _CORRECT) -> bytes:
    """Return a line, without its end, as the value of a record; ``TopicError`` if its format cannot write it."""
    try:
        return write(line.removesuffix(b"\n").removesuffix(b"\r"))
    except UnwritableError as error:
        raise TopicError(
            f"Line {number:,} cannot be written: {error}",
            action=action,
        ) from None


def require_own_keys(table: StreamTable) -> None:
    """Refuse a table that reads what is sent beside the value: its key would be ours, and its key column unknown."""
    for column in table.told:
        part = column.field.part
        if part == KEY or (part != VALUE and column.name in table.key):
            raise TopicError(
                f"Column {column.name} is the {column.field.source}, which lines do not tell",
                where=f"table {table.name}",
                action="Nothing was sent: send its records with a client of Kafka's.",
            )


class _Sending:
    """The records on their way: how many were sent, how many acknowledged, and the first failure."""

    def __init__(
        self, producer: AIOKafkaProducer, table: StreamTable, writing: Writing, options: PublishOptions
    ) -> None:
        self._producer = producer
        self._table = table
        self._writing = writing
        self._options = options
        self._keys = tuple(table.by_name[name].field for name in table.key)
        self._sent = 0
        self._acknowledged = 0
        self._failure: BaseException | None = None

    async def send(self, lines: Iterable[bytes]) -> int:
        begun = time.monotonic()
        for line in lines:
            if self._options.rate:
                await self._wait_for_turn(begun + self._sent / self._options.rate)
            await self._send_one(written(self._writing.write, line, self._sent + 1))
            if self._sent % _BREATH == 0:
                await asyncio.sleep(0)
            self._require_no_failure()
        await self._drain()
        return self._acknowledged

    async def _send_one(self, value: bytes) -> None:
        key = record_key(value, self._keys, self._writing.parser)
        try:
            future = await self._producer.send(self._table.topic, value, key)
        except MessageSizeTooLargeError:
            fact = f"Record {self._sent + 1} has {len(value)} bytes, more than the broker takes"
            where = f"topic {self._table.topic}"
            raise TopicError(fact, where=where, action="Those before it were sent; shorten it.") from None
        future.add_done_callback(self._on_answer)
        self._sent += 1

    async def _wait_for_turn(self, due: float) -> None:
        await asyncio.sleep(max(0.0, due - time.monotonic()))

    def _on_answer(self, future: "asyncio.Future[Any]") -> None:
        failure = None if future.cancelled() else future.exception()
        if failure is not None or future.cancelled():
            self._failure = self._failure or failure
            return
        self._acknowledged += 1
        if self._options.on_progress:
            self._options.on_progress(self._acknowledged)

    async def _drain(self) -> None:
        """Wait for every answer, as long as answers come."""
        while self._acknowledged < self._sent:
            before = self._acknowledged
            await asyncio.wait([asyncio.ensure_future(self._producer.flush())], timeout=_STALL_SECONDS)
            self._require_no_failure()
            if self._acknowledged == before < self._sent:
                raise TimeoutError

    def _require_no_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def record_key(value: bytes, fields: tuple[Field, ...], parser: Parser = _JSON) -> bytes | None:
    """Return the values of the key fields as text, joined by ``|``; ``None`` where the record cannot be read.

    So it is of a log table, which has none.
    """
    if not fields:
        return None
    try:
        decoded = convert(parser(value), fields)
    except Rejection:
        return None
    return "|".join(_text(decoded[field.name]) for field in fields).encode()


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)
