"""Kafka clients for one request to the broker, all created from the same settings."""

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
_REQUEST_SHARE = 0.4
"""Share of the time limit for one request to a server: if a server hangs, time is left for another one."""
_UNLIMITED_REQUEST_MS = 10_000
_CLOSE_SECONDS = 1.0
_RENAMED_ARGUMENTS = {"batch.size": "max_batch_size"}
_TYPES_WITHOUT_DEFAULT: dict[str, type] = {
    "client_id": str,
    "client_rack": str,
    "compression_type": str,
    "max_poll_records": int,
}
_SETTING = "LAKEHOUSE_KAFKA_PROPERTIES"


class Clients:
    """Creates aiokafka clients for the broker of the settings, with their security and their properties."""

    def __init__(self, settings: Settings, limit: float | None) -> None:
        self._settings = settings
        self._shared = {
            "bootstrap_servers": bootstrap_servers(settings),
            "retry_backoff_ms": 20,
            "request_timeout_ms": _UNLIMITED_REQUEST_MS if limit is None else int(limit * _REQUEST_SHARE * 1000),
            **client_security(settings),
        }

    @asynccontextmanager
    async def open(self, client_class: type, **defaults: Any) -> AsyncIterator[Any]:
        """Start a client and stop it afterwards, even if its start fails; a hung broker does not delay the stop.

        The user's properties override ``defaults``, which the request prefers.
        """
        client_arguments = {**defaults, **self._shared, **arguments(self._settings.client_properties, client_class)}
        try:
            client = client_class(**client_arguments)
        except (ValueError, AssertionError):
            names = ", ".join(self._settings.client_properties)
            raise SettingsError(f"A value in {_SETTING} cannot be used", where=names, action=_SEE_KAFKA) from None
        try:
            await _start(client)
            yield client
        finally:
            stop = client.close if client_class is AIOKafkaAdminClient else client.stop
            with suppress(TimeoutError, KafkaError):
                await asyncio.wait_for(stop(), _CLOSE_SECONDS)


async def _start(client: Any) -> None:
    try:
        await client.start()
    except OverflowError as error:
        raise KafkaConnectionError(str(error)) from None


def only_in_spark(settings: Settings) -> list[str]:
    """Return the names of the properties that only Spark's client has an argument for."""
    argument_names = {name for client_class in _CLIENTS for name in _argument_types(client_class)}
    return [name for name in settings.client_properties if _argument_name(name) not in argument_names]


def arguments(properties: Mapping[str, str], kind: type) -> dict[str, Any]:
    """Return the properties that a client class accepts, as its arguments; ``SettingsError`` for a wrong type."""
    types = _argument_types(kind)
    return {
        _argument_name(name): _convert(name, text, types[_argument_name(name)])
        for name, text in properties.items()
        if _argument_name(name) in types
    }


def _argument_name(name: str) -> str:
    return _RENAMED_ARGUMENTS.get(name, name.replace(".", "_"))


def _argument_types(client_class: type) -> dict[str, type]:
    """Return the types of the arguments of a client that can be parsed from text."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(client_class).parameters.items()}
    types = {name: type(default) for name, default in defaults.items() if type(default) in (bool, int, str)}
    return types | {name: type_ for name, type_ in _TYPES_WITHOUT_DEFAULT.items() if name in defaults}


def _convert(name: str, text: str, type_: type) -> Any:
    if (name, text) == ("compression.type", "none"):
        return None
    parse, expected = _PARSERS[type_]
    try:
        return parse(text)
    except (KeyError, ValueError):
        raise SettingsError(f"{_SETTING}: the value of {name} must be {expected}", action=_SEE_KAFKA) from None


_PARSERS: dict[type, tuple[Callable[[str], Any], str]] = {
    bool: ({"true": True, "false": False}.__getitem__, "true or false"),
    int: (int, "a whole number"),
    str: (str, "text"),
}
_SEE_KAFKA = "See the documentation of Kafka's clients for the values of each property."
