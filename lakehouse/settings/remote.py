"""The address of a Spark Connect server with its parameters, as a person writes it: what is refused shows no value."""

import re
from typing import NamedTuple
from urllib.parse import unquote
from uuid import UUID

_ADDRESS = re.compile(
    r"sc://(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\])(:(?P<port>\d+))?(/(;(?P<parameters>.*))?)?", re.DOTALL
)
_PORT, _HIGHEST_PORT = 15002, 65535
_OF_SPARK = ("token", "use_ssl", "user_id", "user_agent", "session_id")
_HEADER = re.compile(r"(?!grpc-)[a-z0-9_.-]+(?<!-bin)")
_VALUE = re.compile(r"[\x20-\x7e]+")
_LONGEST = 2048
_ENCODED = {mark: f"%{ord(mark):02X}" for mark in "=#?"}
"""What ends a parameter's value for one reader or another."""


class RemoteAddress(NamedTuple):
    """Where a server listens, and what it is told with each question; parameters may be secret."""

    host: str
    port: int
    parameters: dict[str, str]


def parse_remote(text: str) -> RemoteAddress:
    """Return what ``sc://host:port/;name=value;...`` says, values decoded.

    Raises ``ValueError`` with a sentence that tells how to write it and shows nothing that may be secret.
    """
    found = _ADDRESS.fullmatch(text)
    if not found or not 1 <= int(found["port"] or _PORT) <= _HIGHEST_PORT:
        raise ValueError("it has to be sc://host:port, and parameters behind it as in sc://host:port/;use_ssl=true")
    parts = (found["parameters"] or "").split(";")
    return RemoteAddress(
        found["host"],
        int(found["port"] or _PORT),
        dict(_parameter(part, number) for number, part in enumerate(parts, 1) if part),
    )


def _parameter(part: str, number: int) -> tuple[str, str]:
    """One name with its value; a name that nobody knows may be a piece of a secret, and has a number instead."""
    name, equals, written = part.partition("=")
    called = name if name in _OF_SPARK else f"parameter {number}"
    if not equals:
        raise ValueError(f"{called} is not written as name=value; a ; within a value is written %3B")
    if name not in _OF_SPARK and not _HEADER.fullmatch(name):
        raise ValueError(f"the name of {called} is none that a header can have")
    for mark, encoded in _ENCODED.items():
        if mark in written:
            raise ValueError(f"the value of {called} holds {mark}, which is written {encoded} there")
    if re.search("%(?![0-9a-fA-F]{2})", written):
        raise ValueError(f"the value of {called} holds %, which is written %25 there")
    value = unquote(written)
    if not _VALUE.fullmatch(value) or len(value) > _LONGEST:
        raise ValueError(f"the value of {called} is empty, too long or holds what no header can: a line end, perhaps")
    _require_meaning(name, value)
    return name, value


def _require_meaning(name: str, value: str) -> None:
    if name == "use_ssl" and value not in ("true", "false"):
        raise ValueError("use_ssl has to be true or false")
    if name == "session_id":
        try:
            UUID(value)
        except ValueError:
            raise ValueError("session_id has to be a UUID") from None
