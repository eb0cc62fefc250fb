"""The schema in each change of a connector: that of the first one is parsed once for all records that begin with it."""

import re
from json import JSONDecoder
from typing import Any, NamedTuple

from lakehouse.decoding.fast.exact_records import inexact_values
from lakehouse.decoding.fast.plain_parsing import Native, parse_or_none

_SCHEMA = '{"schema":'
_PAYLOAD = re.compile(r'[ \t\r\n]*,[ \t\r\n]*"payload"[ \t\r\n]*:')
_WITHOUT_SCHEMA = b'{"payload":'


class SharedSchema(NamedTuple):
    """A schema, and the bytes with which each record that has it begins, up to its payload."""

    prefix: bytes
    schema: Any


def find_schema(values: list[bytes | None], native: Native) -> SharedSchema | None:
    """The schema of the first record, if it is in front of the payload; ``None`` if it is not, or is not certain."""
    try:
        first = next(filter(None, values), b"").decode()
        _, end = JSONDecoder().raw_decode(first, len(_SCHEMA)) if first.startswith(_SCHEMA) else (None, 0)
    except (ValueError, RecursionError):
        return None
    payload = _PAYLOAD.match(first, end) if end else None
    if payload is None:
        return None
    prefix = first[: payload.end()].encode()
    whole = prefix + b"null}"
    content = parse_or_none(whole, native)
    is_exact = content is not None and not inexact_values([whole], [content], (), native)[0]
    return SharedSchema(prefix, content["schema"]) if is_exact else None


def without_schema(values: list[bytes | None], shared: SharedSchema) -> list[bytes | None]:
    """The records as objects with their payload alone; those that begin otherwise as they are."""
    prefix, size = shared.prefix, len(shared.prefix)
    return [_WITHOUT_SCHEMA + value[size:] if value and value.startswith(prefix) else value for value in values]


def add_schema(contents: list[Any], is_without: list[bool], shared: SharedSchema) -> list[Any]:
    """The contents with their schemas again; ``None`` for those that have more than a payload."""
    schema = shared.schema
    return [
        content
        if not without
        else {"schema": schema, "payload": content["payload"]}
        if type(content) is dict and content.keys() == {"payload"}
        else None
        for content, without in zip(contents, is_without, strict=True)
    ]
