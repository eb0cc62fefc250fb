"""The address of a Spark Connect server with its parameters. Errors show no value, since it may be secret."""

import re
from typing import NamedTuple
from urllib.parse import unquote
from uuid import UUID

_ADDRESS = re.compile(
    r"sc://(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\])(:(?P<port>\d+))?(/(;(?P<parameters>.*))?)?", re.DOTALL
)
_DEFAULT_PORT, _HIGHEST_PORT = 15002, 65535
_SPARK_PARAMETERS = ("token", "use_ssl", "user_id", "user_agent", "session_id")
_HEADER_NAME = re.compile(r"(?!grpc-)[a-z0-9_.-]+(?<!-bin)")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]+")
_MAX_VALUE_LENGTH = 2048
_PERCENT_CODES = {character: f"%{ord(character):02X}" for character in "=#?"}
"""Characters that end the value of a parameter for some readers of the address."""


class RemoteAddress(NamedTuple):
    """Host and port of a server, and the parameters of each request to it; these may be secret."""

    host: str
    port: int
    parameters: dict[str, str]


def parse_remote(text: str) -> RemoteAddress:
    """Parse ``sc://host:port/;name=value;...`` and decode the values.

    Raises ``ValueError`` with a message that says how to write it and shows nothing that may be secret.
    """
    match = _ADDRESS.fullmatch(text)
    if not match or not 1 <= int(match["port"] or _DEFAULT_PORT) <= _HIGHEST_PORT:
        raise ValueError("it must be sc://host:port, with parameters as in sc://host:port/;use_ssl=true")
    parts = (match["parameters"] or "").split(";")
    return RemoteAddress(
        match["host"],
        int(match["port"] or _DEFAULT_PORT),
        dict(_parse_parameter(part, number) for number, part in enumerate(parts, 1) if part),
    )


def _parse_parameter(part: str, number: int) -> tuple[str, str]:
    """Return a name and its value. Errors show the number of an unknown name, which may be part of a secret."""
    name, equals, encoded_value = part.partition("=")
    shown_name = name if name in _SPARK_PARAMETERS else f"parameter {number}"
    if not equals:
        raise ValueError(f"{shown_name} is not written as name=value; a ; within a value is written %3B")
    if name not in _SPARK_PARAMETERS and not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"the name of {shown_name} is not valid as the name of a header")
    for character, code in _PERCENT_CODES.items():
        if character in encoded_value:
            raise ValueError(f"the value of {shown_name} contains {character}, which must be written {code}")
    if re.search("%(?![0-9a-fA-F]{2})", encoded_value):
        raise ValueError(f"the value of {shown_name} contains %, which must be written %25")
    value = unquote(encoded_value)
    if not _HEADER_VALUE.fullmatch(value) or len(value) > _MAX_VALUE_LENGTH:
        raise ValueError(
            f"the value of {shown_name} is empty, too long or not valid in a header, for example with a line break"
        )
    _require_valid(name, value)
    return name, value


def _require_valid(name: str, value: str) -> None:
    if name == "use_ssl" and value not in ("true", "false"):
        raise ValueError("use_ssl must be true or false")
    if name == "session_id":
        try:
            UUID(value)
        except ValueError:
            raise ValueError("session_id must be a UUID") from None
