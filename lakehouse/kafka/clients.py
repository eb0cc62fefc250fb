"""Clients of one question to the broker, each made from the same settings."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from lakehouse.errors import SettingsError
from lakehouse.kafka.security import client_security
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers

_CLIENTS = (AIOKafkaAdminClient, AIOKafkaConsumer, AIOKafkaProducer)
_SHARE = 0.4
"""Of a question's limit, for one request: a server that hangs leaves time for another."""
_PATIENT_MS = 10_000
_CLOSE_SECONDS = 1.0
_NAMED_OTHERWISE = {"batch.size": "max_batch_size"}
_WITHOUT_DEFAULT: dict[str, type] = {
    "client_id": str,
    "client_rack": str,
    "compression_type": str,
    "max_poll_records": int,
}
_SETTING = "LAKEHOUSE_KAFKA_PROPERTIES"


class Clients:
    """Makes clients of aiokafka: for the broker of the settings, secured as they say, with their properties."""

    def __init__(self, settings: Settings, limit: float | None) -> None:
        self._settings = settings
        self._shared = {
            "bootstrap_servers": bootstrap_servers(settings),
            "retry_backoff_ms": 20,
            "request_timeout_ms": _PATIENT_MS if limit is None else int(limit * _SHARE * 1000),
            **client_security(settings),
        }

    @asynccontextmanager
    async def open(self, kind: type, **own: Any) -> AsyncIterator[Any]:
        """Start a client and stop it afterwards, also where its start failed; a hung broker delays no end.

        The person's properties win over ``own``, which holds what this question prefers.
        """
        chosen = {**own, **self._shared, **arguments(self._settings.client_properties, kind)}
        try:
            client = kind(**chosen)
        except (ValueError, AssertionError):
            names = ", ".join(self._settings.client_properties)
            raise SettingsError(f"A value in {_SETTING} cannot be used", where=names, action=_OF_KAFKA) from None
        try:
            await _start(client)
            yield client
        finally:
            stop = client.close if kind is AIOKafkaAdminClient else client.stop
            with suppress(TimeoutError, KafkaError):
                await asyncio.wait_for(stop(), _CLOSE_SECONDS)


async def _start(client: Any) -> None:
    try:
        await client.start()
    except OverflowError as error:
        raise KafkaConnectionError(str(error)) from None


def only_in_spark(settings: Settings) -> list[str]:
    """Names of the properties that no client but Spark's has an argument for."""
    known = {name for kind in _CLIENTS for name in _types(kind)}
    return [name for name in settings.client_properties if _argument(name) not in known]


def arguments(properties: Mapping[str, str], kind: type) -> dict[str, Any]:
    """Return what of the properties this client takes, as its arguments; ``SettingsError`` for a wrong type."""
    types = _types(kind)
    return {
        _argument(name): _converted(name, text, types[_argument(name)])
        for name, text in properties.items()
        if _argument(name) in types
    }


def _argument(name: str) -> str:
    return _NAMED_OTHERWISE.get(name, name.replace(".", "_"))


def _types(kind: type) -> dict[str, type]:
    """The arguments of a client that a text can be turned into, with their types."""
    defaults = {name: each.default for name, each in inspect.signature(kind).parameters.items()}
    plain = {name: type(default) for name, default in defaults.items() if type(default) in (bool, int, str)}
    return plain | {name: type_ for name, type_ in _WITHOUT_DEFAULT.items() if name in defaults}


def _converted(name: str, text: str, wanted: type) -> Any:
    if (name, text) == ("compression.type", "none"):
        return None
    read, expected = _READ[wanted]
    try:
        return read(text)
    except (KeyError, ValueError):
        raise SettingsError(f"{_SETTING}: the value of {name} has to be {expected}", action=_OF_KAFKA) from None


_READ: dict[type, tuple[Callable[[str], Any], str]] = {
    bool: ({"true": True, "false": False}.__getitem__, "true or false"),
    int: (int, "a whole number"),
    str: (str, "text"),
}
_OF_KAFKA = "Kafka's documentation of its clients says what each property may be."
