"""One question to the broker: within a limit of time, quiet, and with typed errors."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from lakehouse.errors import BrokerError
from lakehouse.local.broker import bootstrap_servers
from lakehouse.settings import Settings
from lakehouse.topic.security import client_security

Answer = TypeVar("Answer")
Options = dict[str, Any]

_SHARE = 0.4
"""Of a question's limit, for one request: a server that hangs leaves time for another."""
_PATIENT_MS = 10_000
_CLOSE_SECONDS = 1.0
_CONNECTING = re.compile(r'^Unable connect to "[^"]*": ?')
_log = logging.getLogger(__name__)
_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)


def ask(settings: Settings, limit: float | None, question: Callable[[Options], Awaitable[Answer]]) -> Answer:
    """Run a question that takes the options of an aiokafka client, for at most ``limit`` seconds.

    Raises ``BrokerError`` where the broker is down, refuses us or does not answer in time, and
    ``SettingsError`` where the settings cannot be used.
    """
    options = {"bootstrap_servers": bootstrap_servers(settings), "retry_backoff_ms": 20, **client_security(settings)}
    options["request_timeout_ms"] = _PATIENT_MS if limit is None else int(limit * _SHARE * 1000)
    _listen()
    lines: list[str] = []
    token = _heard.set(lines)
    try:
        return asyncio.run(_within(limit, question, options))
    except TimeoutError:
        raise _broker_error(settings, "The broker does not answer") from None
    except KafkaConnectionError as error:
        cause = _CONNECTING.sub("", lines[-1] if lines else str(error.args[0]))
        raise _broker_error(settings, f"The broker cannot be reached: {cause or 'no answer'}") from None
    except KafkaError as error:
        raise _broker_error(settings, f"The broker refuses: {error}") from None
    except NotImplementedError:
        raise _broker_error(settings, "The broker is older than Kafka 3.1") from None
    finally:
        _heard.reset(token)


def _broker_error(settings: Settings, fact: str) -> BrokerError:
    if not settings.kafka_bootstrap_servers:
        action = "Start it with: lakehouse up broker"
    elif settings.kafka_security_protocol == "PLAINTEXT":
        action = "Check that it runs and that LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS names it."
    else:
        action = "Check the LAKEHOUSE_KAFKA_ settings: servers, protocol, mechanism, name, password, CA file."
    return BrokerError(fact, where=bootstrap_servers(settings), action=action)


async def _within(limit: float | None, question: Callable[[Options], Awaitable[Answer]], options: Options) -> Answer:
    async with asyncio.timeout(limit):
        return await question(options)


@asynccontextmanager
async def opened(client: Any) -> AsyncIterator[Any]:
    """Start a client and stop it afterwards, also where its start failed; a hung broker delays no end."""
    stop = client.close if isinstance(client, AIOKafkaAdminClient) else client.stop
    try:
        await _start(client)
        yield client
    finally:
        with suppress(TimeoutError, KafkaError):
            await asyncio.wait_for(stop(), _CLOSE_SECONDS)


async def _start(client: Any) -> None:
    try:
        await client.start()
    except OverflowError as error:
        raise KafkaConnectionError(str(error)) from None


class _Ear(logging.Handler):
    """Keeps what aiokafka says for the error of the question at hand; its reasons stand nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        lines = _heard.get()
        if lines is not None and record.levelno >= logging.WARNING:
            lines.append(record.getMessage())
        _log.debug("%s", record.getMessage())


def _listen() -> None:
    logger = logging.getLogger("aiokafka")
    if not any(isinstance(handler, _Ear) for handler in logger.handlers):
        logger.addHandler(_Ear())
        logger.propagate = False
