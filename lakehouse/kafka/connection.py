"""One request to the broker: within a time limit, without log output, and with typed errors."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

from aiokafka.errors import (
    BrokerNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    KafkaUnavailableError,
    NodeNotReadyError,
    NotControllerError,
    ReplicaNotAvailableError,
    UnknownError,
)

from lakehouse.errors import BrokerError, BrokerRefusedError
from lakehouse.kafka.clients import Clients
from lakehouse.kafka.connection_causes import Cause, find_cause
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers

Answer = TypeVar("Answer")

_PROBE_SECONDS = 1.0
"""Time limit of a probe for the cause of a failure, if the request has no limit."""
_FAILOVER_ERRORS = (NodeNotReadyError, NotControllerError, KafkaTimeoutError)
"""Errors of a client while a cluster replaces a dead node."""
_TEMPORARY_ERRORS = (BrokerNotAvailableError, KafkaUnavailableError, ReplicaNotAvailableError, UnknownError)
"""Temporary errors that aiokafka does not mark as retriable."""
_TOO_OLD = Cause("The broker is older than Kafka 3.1", "Use a newer broker, or correct its address.")
_PAUSE = 0.1
_CONNECTING = re.compile(r'^Unable connect to "[^"]*": ?')
_log = logging.getLogger(__name__)
_client_messages: ContextVar[list[tuple[str, BaseException | None]] | None] = ContextVar(
    "client_messages", default=None
)


def ask(settings: Settings, limit: float | None, question: Callable[[Clients], Awaitable[Answer]]) -> Answer:
    """Run a request, which opens the clients it needs, for at most ``limit`` seconds.

    Raises ``BrokerError`` if the broker is down or does not answer in time, and ``BrokerRefusedError`` if it refuses
    the request. Raises ``SettingsError`` if the settings cannot be used.
    """
    clients = Clients(settings, limit)
    _capture_client_log()
    messages: list[tuple[str, BaseException | None]] = []
    token = _client_messages.set(messages)
    deadline = None if limit is None else time.monotonic() + limit
    try:
        return asyncio.run(_run_within(limit, question, clients))
    except TimeoutError:
        raise _broker_error(settings, "The broker does not answer") from None
    except _FAILOVER_ERRORS as error:
        raise _broker_error(settings, f"The broker does not answer: {error}") from None
    except KafkaConnectionError as error:
        raise _unreachable_error(settings, messages or [(str(error.args[0]), error)], deadline) from None
    except KafkaError as error:
        raise _answer_error(settings, error) from None
    except NotImplementedError:
        raise _refusal(settings, _TOO_OLD) from None
    finally:
        _client_messages.reset(token)


def _unreachable_error(
    settings: Settings, messages: list[tuple[str, BaseException | None]], deadline: float | None
) -> BrokerError:
    """Return an error with its cause, if the remaining time is enough to find the cause."""
    seconds = _PROBE_SECONDS if deadline is None else min(_PROBE_SECONDS, (deadline - time.monotonic()) / 2)
    cause = find_cause(settings, [error for _, error in messages if error], max(seconds, 0.1))
    if cause is None:
        message = _CONNECTING.sub("", messages[-1][0]) or "no answer"
        return _broker_error(settings, f"The broker cannot be reached: {message}")
    return _refusal(settings, cause)


def _answer_error(settings: Settings, error: KafkaError) -> BrokerError:
    """Classify the error of a broker that answers as temporary or as a wrong configuration."""
    if error.retriable or isinstance(error, _TEMPORARY_ERRORS):
        return _broker_error(settings, f"The broker cannot answer now: {error}")
    if "Authorization" in type(error).__name__:
        action = "Grant the right to this user, or use another user that has it (LAKEHOUSE_KAFKA_USERNAME)."
    else:
        action = "Check the LAKEHOUSE_KAFKA_ settings and the permissions on the broker."
    return _refusal(settings, Cause(f"The broker refuses the request: {error}", action))


def _refusal(settings: Settings, cause: Cause) -> BrokerRefusedError:
    return BrokerRefusedError(cause.fact, where=bootstrap_servers(settings), action=cause.action)


def _broker_error(settings: Settings, fact: str) -> BrokerError:
    if not settings.kafka_bootstrap_servers:
        action = "Start it with: lakehouse up broker"
    elif settings.kafka_security_protocol == "PLAINTEXT":
        action = "Check that it runs, and that LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS has its address."
    else:
        action = "Check the LAKEHOUSE_KAFKA_ settings: servers, protocol, mechanism, name, password, CA file."
    return BrokerError(fact, where=bootstrap_servers(settings), action=action)


async def _run_within(
    limit: float | None, question: Callable[[Clients], Awaitable[Answer]], clients: Clients
) -> Answer:
    """Run a request; with a time limit, repeat it while a node or the leader of a partition is being replaced."""
    async with asyncio.timeout(limit):
        while True:
            try:
                return await question(clients)
            except _FAILOVER_ERRORS:
                if limit is None:
                    raise
                await asyncio.sleep(_PAUSE)


class _ClientLogHandler(logging.Handler):
    """Keeps the messages and errors that aiokafka logs during a request: it reports its reasons nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        messages = _client_messages.get()
        if messages is not None and record.levelno >= logging.WARNING:
            log_arguments = record.args if isinstance(record.args, tuple) else ()
            error = next((argument for argument in log_arguments if isinstance(argument, BaseException)), None)
            messages.append((record.getMessage(), error))
        _log.debug("%s", record.getMessage())


def _capture_client_log() -> None:
    logger = logging.getLogger("aiokafka")
    if not any(isinstance(handler, _ClientLogHandler) for handler in logger.handlers):
        logger.addHandler(_ClientLogHandler())
        logger.propagate = False
