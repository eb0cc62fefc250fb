"""Kafka clients for one request to the broker, all created from the same settings."""

import asyncio
import inspect
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from lakehouse.errors import SettingsError
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PLAIN_KEY, _ENCRYPTED_KEY = "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"
_PBES2 = bytes.fromhex("2a864886f70d01050d")  # encryption scheme of newer tools, as an object identifier in the file
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


def client_security(settings: Settings) -> dict[str, Any]:
    """Return the arguments that every aiokafka client takes; ``SettingsError`` if one cannot be used."""
    options: dict[str, Any] = {"security_protocol": settings.kafka_security_protocol}
    if uses_tls(settings):
        options["ssl_context"] = ssl_context(settings)
    if uses_sasl(settings):
        user, password = _credentials(settings)
        options["sasl_mechanism"] = settings.kafka_sasl_mechanism
        options |= {"sasl_plain_username": user, "sasl_plain_password": password}
    return options


def spark_security(settings: Settings) -> dict[str, str]:
    """Return the same settings as options of Spark's Kafka source; certificates and key are passed as text."""
    options: dict[str, str] = {"kafka.security.protocol": settings.kafka_security_protocol}
    if uses_tls(settings):
        ssl_context(settings)
        options |= _store_options(settings)
    if uses_sasl(settings):
        user, password = (_quote(text) for text in _credentials(settings))
        module = _MODULES[settings.kafka_sasl_mechanism]
        options["kafka.sasl.mechanism"] = settings.kafka_sasl_mechanism
        options["kafka.sasl.jaas.config"] = f"{module} required username={user} password={password};"
    return options


def uses_tls(settings: Settings) -> bool:
    """Whether the settings ask for TLS."""
    return settings.kafka_security_protocol in ("SSL", "SASL_SSL")


def uses_sasl(settings: Settings) -> bool:
    """Whether the settings ask for a user name and a password."""
    return settings.kafka_security_protocol.startswith("SASL")


def ssl_context(settings: Settings) -> ssl.SSLContext:
    """Return a context with the trusted authorities, and the client certificate if the settings name one."""
    file = settings.kafka_ca_file
    try:
        context = ssl.create_default_context(cafile=str(file) if file else None)
    except OSError:
        raise SettingsError(
            "LAKEHOUSE_KAFKA_CA_FILE is not a readable PEM file",
            where=str(file),
            action="Set it to the certificate of the authority that signed the broker's certificate.",
        ) from None
    certificate, key = settings.kafka_client_certificate_file, settings.kafka_client_key_file
    if certificate and key:
        _load_certificate(context, settings, certificate, key)
    return context


def _load_certificate(context: ssl.SSLContext, settings: Settings, certificate: Path, key: Path) -> None:
    _require_readable(key)
    try:
        # never without a password: OpenSSL would prompt for it in the terminal
        context.load_cert_chain(certificate, key, _key_password(settings) or "")
    except (OSError, ValueError):
        raise SettingsError(
            "LAKEHOUSE_KAFKA_CLIENT_CERTIFICATE_FILE and LAKEHOUSE_KAFKA_CLIENT_KEY_FILE cannot be used together",
            where=f"{certificate}, {key}",
            action="Both must be PEM files, and the key must belong to the certificate. An encrypted key needs its"
            " password in LAKEHOUSE_KAFKA_CLIENT_KEY_PASSWORD.",
        ) from None


def _require_readable(key: Path) -> None:
    """Refuse a key that Spark's client cannot read: it reads fewer formats, and the settings serve all clients."""
    text = _text(key)
    if _PLAIN_KEY in text:
        return
    if _ENCRYPTED_KEY not in text:
        fact = "has no private key in PKCS#8, the only format that Spark's client reads"
        command = "openssl pkcs8 -topk8 -nocrypt -in OLD.key -out NEW.key"
    elif _PBES2 in b64decode(text.partition(_ENCRYPTED_KEY)[2].partition("-----")[0]):
        fact = "has a key encrypted with PBES2, which Spark's client cannot read"
        command = "openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in OLD.key -out NEW.key (or -nocrypt, without a password)"
    else:
        return
    raise SettingsError(f"LAKEHOUSE_KAFKA_CLIENT_KEY_FILE {fact}", where=str(key), action=f"Convert it: {command}.")


def _store_options(settings: Settings) -> dict[str, str]:
    options: dict[str, str] = {}
    if settings.kafka_ca_file:
        options["kafka.ssl.truststore.type"] = "PEM"
        options["kafka.ssl.truststore.certificates"] = _text(settings.kafka_ca_file)
    certificate, key = settings.kafka_client_certificate_file, settings.kafka_client_key_file
    if certificate and key:
        options["kafka.ssl.keystore.type"] = "PEM"
        options["kafka.ssl.keystore.certificate.chain"] = _text(certificate)
        options["kafka.ssl.keystore.key"] = _text(key)
        password = _key_password(settings)
        if password:
            options["kafka.ssl.key.password"] = password
    return options


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        action = "Correct its permissions, or the setting with its path."
        raise SettingsError(f"A file cannot be read: {error.strerror}", where=str(file), action=action) from None


def _key_password(settings: Settings) -> str | None:
    secret = settings.kafka_client_key_password
    return secret.get_secret_value() if secret else None


def _credentials(settings: Settings) -> tuple[str, str]:
    if settings.kafka_username is None or settings.kafka_password is None:
        fact = f"{settings.kafka_security_protocol} needs a user name and a password"
        raise SettingsError(fact, action="Set LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD.")
    return settings.kafka_username, settings.kafka_password.get_secret_value()


def _quote(text: str) -> str:
    """Quote a text for Java's tokenizer: a line end would end it, and error messages would show the rest as a name."""
    escaped_text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char >= " " else f"\\{ord(char):03o}" for char in escaped_text) + '"'


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
