"""What surrounds the fields of many records: a schema that each carries, and texts that hold JSON."""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from json import JSONDecoder
from typing import Any, NamedTuple

import numpy as np

from lakehouse.decoding.conversion.numbers import Mask
from lakehouse.decoding.fields import paths_in_value
from lakehouse.decoding.json_parsing import Native
from lakehouse.decoding.native.parsing import inexact_values, parse_contents, parse_or_none
from lakehouse.decoding.opened_texts import OpeningParser
from lakehouse.decoding.rules import Rules

_SCHEMA = '{"schema":'
_PAYLOAD = re.compile(r'[ \t\r\n]*,[ \t\r\n]*"payload"[ \t\r\n]*:')
_WITHOUT_SCHEMA = b'{"payload":'
_BEGINNINGS = ("{", "[")
_MAX_SIZE = 1_000_000  # bytes of a text: with its record, it takes far less memory than a record may


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


def open_texts(contents: list[Any], rules: Rules, native: Native) -> Mask:
    """Put the JSON that texts hold in their places; return a mask of the records in which that loses something.

    If another column reads such a text as a whole, or what no column takes, it stays a text, and so does one that holds
    no object and no array: the strict rules open it.
    """
    parser, is_inexact = rules.parser, np.zeros(len(contents), bool)
    for path in _opened_paths(parser, rules) if isinstance(parser, OpeningParser) else ():
        containers = _containers_at(contents, path)
        texts = [(record, inner) for record, inner in enumerate(containers) if type(inner.get(path[-1])) is str]
        is_base64 = path == parser.json_options.base64_path
        pairs = [(record, _inner_json(inner[path[-1]], is_base64=is_base64)) for record, inner in texts]
        records, written = [record for record, text in pairs if text], [text for _, text in pairs if text]
        opened = parse_contents(written, parser.json_options, native)
        is_inexact[records] |= inexact_values(written, opened, rules.fields, native)
        is_inexact[records] |= np.fromiter((len(text) > _MAX_SIZE for text in written), bool, len(written))
        for record, content in zip(records, opened, strict=True):
            if content is not None:
                containers[record][path[-1]] = content
    return is_inexact


def _containers_at(contents: list[Any], path: tuple[str, ...]) -> list[dict[str, Any]]:
    """The object of each record that contains what is at a path; an empty one if there is none."""
    containers = contents
    for step in path[:-1]:
        containers = [outer.get(step) if type(outer) is dict else None for outer in containers]
    return [inner if type(inner) is dict else {} for inner in containers]


def _opened_paths(parser: OpeningParser, rules: Rules) -> list[tuple[str, ...]]:
    """The paths of objects and arrays that no column reads as a whole, each after those that lead to it."""
    whole_paths = {steps for steps, _ in paths_in_value(rules.mapped_fields, rules.rows_from)}
    if rules.taken_fields is not None or any(field.place.whole_depth for field in rules.mapped_fields):
        return []
    return [
        tuple(step for step in path if step is not None)
        for path in parser.paths
        if None not in path and not any(path[: len(whole)] == whole for whole in whole_paths)
    ]


def _inner_json(text: str, *, is_base64: bool) -> bytes | None:
    """The bytes of the JSON that a text may hold; ``None`` if it certainly holds neither an object nor an array."""
    if not is_base64:
        return text.encode() if text.lstrip(" \t\r\n").startswith(_BEGINNINGS) else None
    try:
        data = a2b_base64(text)
    except (Base64Error, ValueError):
        return None
    return data if b2a_base64(data, newline=False) == text.encode() else None
