"""Other properties of Kafka's clients: which of them a person may set. Their values may be secret."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_SETTING = {
    "bootstrap.servers": "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS",
    "security.protocol": "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL",
    "sasl.": "LAKEHOUSE_KAFKA_SASL_MECHANISM, LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD",
    "ssl.trust": "LAKEHOUSE_KAFKA_CA_FILE",
    "ssl.": "LAKEHOUSE_KAFKA_CA_FILE, LAKEHOUSE_KAFKA_CLIENT_CERTIFICATE_FILE and LAKEHOUSE_KAFKA_CLIENT_KEY_FILE",
}
_FIXED = {
    *("acks", "auto.offset.reset", "enable.auto.commit", "enable.idempotence", "group.id", "group.instance.id"),
    *("interceptor.classes", "isolation.level", "key.deserializer", "key.serializer", "transactional.id"),
    *("value.deserializer", "value.serializer"),
}
"""What a table holds depends on these."""


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties that a JSON object names, each value as Kafka writes it.

    Raises ``ValueError`` with a sentence that names the property at fault and shows no value.
    """
    return parse_object(text, _require_free, '{"client.id": "lakehouse"}')


def parse_object(text: str, require: Callable[[str], None], example: str) -> dict[str, str]:
    """Return what a JSON object names, each value as text; ``require`` raises ``ValueError`` for a name.

    Raises ``ValueError`` with a sentence that shows no value.
    """
    try:
        given = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"not a JSON object: {error.msg} at character {error.pos}") from None
    if not isinstance(given, Mapping):
        raise ValueError(f"not a JSON object, as in {example}")
    for name in given:
        require(name)
    return {name: _written(name, value) for name, value in given.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} stands there more than once")
    return dict(pairs)


def _require_free(name: str) -> None:
    lower = name.lower()
    if not _NAME.fullmatch(name) or lower.startswith("kafka."):
        raise ValueError(f"{name!r} is no name of a Kafka property, such as client.id")
    if lower in _FIXED:
        raise ValueError(f"{name} is fixed, since what a table holds depends on it; leave it out")
    for beginning, setting in _SETTING.items():
        if lower.startswith(beginning):
            raise ValueError(f"{name} has settings of its own: use {setting}")


def _written(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"the value of {name} has to be text, a number, true or false")
    return str(value)
