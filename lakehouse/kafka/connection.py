"""One question to the broker: within a limit of time, quiet, and with typed errors."""

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
from lakehouse.settings.broker_address import bootstrap_servers

Answer = TypeVar("Answer")

_LONGEST_LOOK = 1.0
"""Seconds for one look at the cause of a failure, where the question has no limit."""
_PASSING = (NodeNotReadyError, NotControllerError, KafkaTimeoutError)
"""What a client says while a cluster replaces a node that died."""
_NOT_NOW = (BrokerNotAvailableError, KafkaUnavailableError, ReplicaNotAvailableError, UnknownError)
"""What passes by itself although aiokafka does not say that it is worth asking again."""
_TOO_OLD = Cause("The broker is older than Kafka 3.1", "Use a newer one, or correct its address.")
_PAUSE = 0.1
_CONNECTING = re.compile(r'^Unable connect to "[^"]*": ?')
_log = logging.getLogger(__name__)
_heard: ContextVar[list[tuple[str, BaseException | None]] | None] = ContextVar("heard", default=None)


def ask(settings: Settings, limit: float | None, question: Callable[[Clients], Awaitable[Answer]]) -> Answer:
    """Run a question, which opens the clients it needs, for at most ``limit`` seconds.

    Raises ``BrokerError`` where the broker is down or does not answer in time, ``BrokerRefusedError`` where it
    answers and refuses us, and ``SettingsError`` where the settings cannot be used.
    """
    clients = Clients(settings, limit)
    _listen()
    heard: list[tuple[str, BaseException | None]] = []
    token = _heard.set(heard)
    due = None if limit is None else time.monotonic() + limit
    try:
        return asyncio.run(_within(limit, question, clients))
    except TimeoutError:
        raise _broker_error(settings, "The broker does not answer") from None
    except _PASSING as error:
        raise _broker_error(settings, f"The broker does not answer: {error}") from None
    except KafkaConnectionError as error:
        raise _unreachable(settings, heard or [(str(error.args[0]), error)], due) from None
    except KafkaError as error:
        raise _answered(settings, error) from None
    except NotImplementedError:
        raise _refusal(settings, _TOO_OLD) from None
    finally:
        _heard.reset(token)


def _unreachable(settings: Settings, heard: list[tuple[str, BaseException | None]], due: float | None) -> BrokerError:
    """Say why, as far as that can be found out in the time that is left."""
    left = _LONGEST_LOOK if due is None else min(_LONGEST_LOOK, (due - time.monotonic()) / 2)
    cause = find_cause(settings, [error for _, error in heard if error], max(left, 0.1))
    if cause is None:
        said = _CONNECTING.sub("", heard[-1][0]) or "no answer"
        return _broker_error(settings, f"The broker cannot be reached: {said}")
    return _refusal(settings, cause)


def _answered(settings: Settings, error: KafkaError) -> BrokerError:
    """What a broker says that is there: it passes by itself, or somebody has to change something."""
    if error.retriable or isinstance(error, _NOT_NOW):
        return _broker_error(settings, f"The broker cannot answer now: {error}")
    if "Authorization" in type(error).__name__:
        action = "Have the right granted to this user, or use one that has it (LAKEHOUSE_KAFKA_USERNAME)."
    else:
        action = "Check the LAKEHOUSE_KAFKA_ settings, and what the broker allows."
    return _refusal(settings, Cause(f"The broker refuses: {error}", action))


def _refusal(settings: Settings, cause: Cause) -> BrokerRefusedError:
    return BrokerRefusedError(cause.fact, where=bootstrap_servers(settings), action=cause.action)


def _broker_error(settings: Settings, fact: str) -> BrokerError:
    if not settings.kafka_bootstrap_servers:
        action = "Start it with: lakehouse up broker"
    elif settings.kafka_security_protocol == "PLAINTEXT":
        action = "Check that it runs and that LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS names it."
    else:
        action = "Check the LAKEHOUSE_KAFKA_ settings: servers, protocol, mechanism, name, password, CA file."
    return BrokerError(fact, where=bootstrap_servers(settings), action=action)


async def _within(limit: float | None, question: Callable[[Clients], Awaitable[Answer]], clients: Clients) -> Answer:
    """Ask, and ask again while a node or the leader of a partition is being replaced, as long as there is a limit."""
    async with asyncio.timeout(limit):
        while True:
            try:
                return await question(clients)
            except _PASSING:
                if limit is None:
                    raise
                await asyncio.sleep(_PAUSE)


class _Ear(logging.Handler):
    """Keeps what aiokafka says, and of which error, for the question at hand; its reasons stand nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        heard = _heard.get()
        if heard is not None and record.levelno >= logging.WARNING:
            given = record.args if isinstance(record.args, tuple) else ()
            heard.append((record.getMessage(), next((each for each in given if isinstance(each, BaseException)), None)))
        _log.debug("%s", record.getMessage())


def _listen() -> None:
    logger = logging.getLogger("aiokafka")
    if not any(isinstance(handler, _Ear) for handler in logger.handlers):
        logger.addHandler(_Ear())
        logger.propagate = False
