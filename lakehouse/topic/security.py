"""How to prove who we are to the broker: the same settings for aiokafka and for Spark."""

import ssl
from typing import Any

from lakehouse.errors import SettingsError
from lakehouse.settings import Settings

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_security(settings: Settings) -> dict[str, Any]:
    """Return the arguments that every aiokafka client takes; ``SettingsError`` where one is missing."""
    options: dict[str, Any] = {"security_protocol": settings.kafka_security_protocol}
    if _encrypted(settings):
        options["ssl_context"] = _ssl_context(settings)
    if _authenticated(settings):
        user, password = _credentials(settings)
        options["sasl_mechanism"] = settings.kafka_sasl_mechanism
        options |= {"sasl_plain_username": user, "sasl_plain_password": password}
    return options


def spark_security(settings: Settings) -> dict[str, str]:
    """Return the same as options of Spark's Kafka source; the authority's certificate travels as text."""
    options: dict[str, str] = {"kafka.security.protocol": settings.kafka_security_protocol}
    if _encrypted(settings) and settings.kafka_ca_file:
        _ssl_context(settings)
        options["kafka.ssl.truststore.type"] = "PEM"
        options["kafka.ssl.truststore.certificates"] = settings.kafka_ca_file.expanduser().read_text()
    if _authenticated(settings):
        user, password = (_quoted(text) for text in _credentials(settings))
        module = _MODULES[settings.kafka_sasl_mechanism]
        options["kafka.sasl.mechanism"] = settings.kafka_sasl_mechanism
        options["kafka.sasl.jaas.config"] = f"{module} required username={user} password={password};"
    return options


def _encrypted(settings: Settings) -> bool:
    return settings.kafka_security_protocol in ("SSL", "SASL_SSL")


def _authenticated(settings: Settings) -> bool:
    return settings.kafka_security_protocol.startswith("SASL")


def _ssl_context(settings: Settings) -> ssl.SSLContext:
    file = settings.kafka_ca_file
    try:
        return ssl.create_default_context(cafile=str(file.expanduser()) if file else None)
    except OSError:
        raise SettingsError(
            "LAKEHOUSE_KAFKA_CA_FILE is no readable PEM file",
            where=str(file),
            action="Name the certificate of the authority that signed the broker's.",
        ) from None


def _credentials(settings: Settings) -> tuple[str, str]:
    if settings.kafka_username is None or settings.kafka_password is None:
        fact = f"{settings.kafka_security_protocol} needs a name and a password"
        raise SettingsError(fact, action="Set LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD.")
    return settings.kafka_username, settings.kafka_password.get_secret_value()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
