"""Other properties of Kafka's clients: which of them a user may set. Their values may be secret."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_SETTING_BY_PREFIX = {
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
"""The rows of a table depend on these."""


def parse_properties(text: str) -> dict[str, str]:
    """Return the properties of a JSON object, each value as the text that Kafka expects.

    Raises ``ValueError`` with a message that names the wrong property and shows no value.
    """
    return parse_object(text, _require_settable, '{"client.id": "lakehouse"}')


def parse_object(text: str, require: Callable[[str], None], example: str) -> dict[str, str]:
    """Return the entries of a JSON object, each value as text; ``require`` raises ``ValueError`` for a wrong name.

    Raises ``ValueError`` with a message that shows no value.
    """
    try:
        entries = json.loads(text, object_pairs_hook=_require_unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not a JSON object, such as {example} ({error.msg} at character {error.pos})") from None
    if not isinstance(entries, Mapping):
        raise ValueError(f"it is not a JSON object, such as {example}")
    for name in entries:
        require(name)
    return {name: _format_value(name, value) for name, value in entries.items()}


def _require_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        duplicate_name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{duplicate_name} is listed more than once")
    return dict(pairs)


def _require_settable(name: str) -> None:
    lower_name = name.lower()
    if not _NAME.fullmatch(name) or lower_name.startswith("kafka."):
        raise ValueError(f"{name!r} is not the name of a Kafka property, such as client.id")
    if lower_name in _FIXED:
        raise ValueError(f"{name} is fixed, since the rows of a table depend on it; remove it")
    for prefix, setting in _SETTING_BY_PREFIX.items():
        if lower_name.startswith(prefix):
            raise ValueError(f"{name} cannot be set here: use {setting}")


def _format_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"the value of {name} must be text, a number, true or false")
    return str(value)
