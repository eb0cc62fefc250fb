"""How to prove who we are to the broker: the same settings for aiokafka and for Spark."""

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
_PLAIN, _ENCRYPTED = "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"
_PBES2 = bytes.fromhex("2a864886f70d01050d")  # how newer tools encrypt a key, by its number in the file


def client_security(settings: Settings) -> dict[str, Any]:
    """Return the arguments that every aiokafka client takes; ``SettingsError`` where one cannot be used."""
    options: dict[str, Any] = {"security_protocol": settings.kafka_security_protocol}
    if encrypted(settings):
        options["ssl_context"] = ssl_context(settings)
    if authenticated(settings):
        user, password = _credentials(settings)
        options["sasl_mechanism"] = settings.kafka_sasl_mechanism
        options |= {"sasl_plain_username": user, "sasl_plain_password": password}
    return options


def spark_security(settings: Settings) -> dict[str, str]:
    """Return the same as options of Spark's Kafka source; certificates and key travel as text."""
    options: dict[str, str] = {"kafka.security.protocol": settings.kafka_security_protocol}
    if encrypted(settings):
        ssl_context(settings)
        options |= _stores(settings)
    if authenticated(settings):
        user, password = (_quoted(text) for text in _credentials(settings))
        module = _MODULES[settings.kafka_sasl_mechanism]
        options["kafka.sasl.mechanism"] = settings.kafka_sasl_mechanism
        options["kafka.sasl.jaas.config"] = f"{module} required username={user} password={password};"
    return options


def encrypted(settings: Settings) -> bool:
    """Whether the settings ask for TLS."""
    return settings.kafka_security_protocol in ("SSL", "SASL_SSL")


def authenticated(settings: Settings) -> bool:
    """Whether the settings ask for a user name and a password."""
    return settings.kafka_security_protocol.startswith("SASL")


def ssl_context(settings: Settings) -> ssl.SSLContext:
    """Whom we trust, and who we are where the settings name a certificate of ours."""
    file = settings.kafka_ca_file
    try:
        context = ssl.create_default_context(cafile=str(file) if file else None)
    except OSError:
        raise SettingsError(
            "LAKEHOUSE_KAFKA_CA_FILE is no readable PEM file",
            where=str(file),
            action="Name the certificate of the authority that signed the broker's.",
        ) from None
    certificate, key = settings.kafka_client_certificate_file, settings.kafka_client_key_file
    if certificate and key:
        _show(context, settings, certificate, key)
    return context


def _show(context: ssl.SSLContext, settings: Settings, certificate: Path, key: Path) -> None:
    _require_readable(key)
    try:
        # never without a password: OpenSSL would ask for it in the terminal
        context.load_cert_chain(certificate, key, _key_password(settings) or "")
    except (OSError, ValueError):
        raise SettingsError(
            "LAKEHOUSE_KAFKA_CLIENT_CERTIFICATE_FILE and LAKEHOUSE_KAFKA_CLIENT_KEY_FILE cannot be used together",
            where=f"{certificate}, {key}",
            action="Both have to be PEM, the key that of the certificate; an encrypted key needs its password in "
            "LAKEHOUSE_KAFKA_CLIENT_KEY_PASSWORD.",
        ) from None


def _require_readable(key: Path) -> None:
    """Spark's client reads fewer forms than ours; one set of settings has to serve all clients."""
    text = _text(key)
    if _PLAIN in text:
        return
    if _ENCRYPTED not in text:
        fact = "holds no private key in PKCS#8, the one form that Spark's client reads"
        command = "openssl pkcs8 -topk8 -nocrypt -in OLD.key -out NEW.key"
    elif _PBES2 in b64decode(text.partition(_ENCRYPTED)[2].partition("-----")[0]):
        fact = "holds a key encrypted with PBES2, which Spark's client cannot read"
        command = "openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in OLD.key -out NEW.key (or -nocrypt, without a password)"
    else:
        return
    raise SettingsError(f"LAKEHOUSE_KAFKA_CLIENT_KEY_FILE {fact}", where=str(key), action=f"Rewrite it: {command}.")


def _stores(settings: Settings) -> dict[str, str]:
    stores: dict[str, str] = {}
    if settings.kafka_ca_file:
        stores["kafka.ssl.truststore.type"] = "PEM"
        stores["kafka.ssl.truststore.certificates"] = _text(settings.kafka_ca_file)
    certificate, key = settings.kafka_client_certificate_file, settings.kafka_client_key_file
    if certificate and key:
        stores["kafka.ssl.keystore.type"] = "PEM"
        stores["kafka.ssl.keystore.certificate.chain"] = _text(certificate)
        stores["kafka.ssl.keystore.key"] = _text(key)
        password = _key_password(settings)
        if password:
            stores["kafka.ssl.key.password"] = password
    return stores


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        action = "Correct its permissions, or the setting that names it."
        raise SettingsError(f"A file cannot be read: {error.strerror}", where=str(file), action=action) from None


def _key_password(settings: Settings) -> str | None:
    secret = settings.kafka_client_key_password
    return secret.get_secret_value() if secret else None


def _credentials(settings: Settings) -> tuple[str, str]:
    if settings.kafka_username is None or settings.kafka_password is None:
        fact = f"{settings.kafka_security_protocol} needs a name and a password"
        raise SettingsError(fact, action="Set LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD.")
    return settings.kafka_username, settings.kafka_password.get_secret_value()


def _quoted(text: str) -> str:
    """A text as Java's tokenizer reads it: a line end would end it, and what follows be shown as a name."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each >= " " else f"\\{ord(each):03o}" for each in escaped) + '"'
