"""Authentication and encryption for the broker: the same settings for aiokafka and for Spark."""

import ssl
from base64 import b64decode
from pathlib import Path
from typing import Any

from lakehouse.errors import SettingsError
from lakehouse.settings import Settings

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PLAIN_KEY, _ENCRYPTED_KEY = "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"
_PBES2 = bytes.fromhex("2a864886f70d01050d")  # encryption scheme of newer tools, as an object identifier in the file


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
