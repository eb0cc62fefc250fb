"""Texts that hold JSON, on the way to fields of many records: the records become those that were never escaped.

A text in the bytes of a record is replaced by the JSON that it holds, so the fast path decodes the record as a whole.
All other bytes stay as they are.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from json import dumps
from types import ModuleType
from typing import Any

from lakehouse.decoding.fast.plain_parsing import parse_or_none
from lakehouse.decoding.fields import Steps, paths_in_value
from lakehouse.decoding.opened_texts import OpeningParser
from lakehouse.decoding.rules import Rules

_MAX_SIZE = 1_000_000  # bytes of a record: with its texts, it takes far less memory than one may
_BEGINNINGS = ("{", "[")


def splice_texts(values: list[bytes | None], rules: Rules, native: ModuleType) -> list[bytes | None]:
    """Return records without escaped JSON at the paths to fields; one that is not certain stays as it is.

    If another column reads such a text as a whole, or what no column takes, it stays a text: the strict rules open it.
    """
    parser = rules.parser
    paths = _spliced_paths(parser, rules) if isinstance(parser, OpeningParser) and parser.is_json else []
    if not paths:
        return values
    base64_path = parser.json_options.base64_path
    return [_splice(value, paths, base64_path, native) for value in values]


def _spliced_paths(parser: OpeningParser, rules: Rules) -> list[tuple[str, ...]]:
    """The paths of objects and arrays that no column reads as a whole, each after those that lead to it."""
    whole_paths = {steps for steps, _ in paths_in_value(rules.mapped_fields, rules.rows_from)}
    if rules.taken_fields is not None or any(field.whole_depth for field in rules.mapped_fields):
        return []
    return [
        tuple(step for step in path if step is not None)
        for path in parser.paths
        if None not in path and not any(path[: len(whole)] == whole for whole in whole_paths)
    ]


def _splice(
    value: bytes | None, paths: list[tuple[str, ...]], base64_path: Steps | None, native: ModuleType
) -> bytes | None:
    """Return a record in which the texts at the paths are the JSON that they hold; as it is if one is not certain.

    A text is found by the bytes in which encoders write it. If these are elsewhere, its own place stays a text, from
    which no column reads, and the strict rules decide.
    """
    parsed = parse_or_none(value, native) if value is not None and len(value) <= _MAX_SIZE else None
    spliced = value or b""
    for path in paths:
        container = _container_at(parsed, path)
        text = container.get(path[-1])
        if type(text) is not str:
            continue
        inner = _inner_json(text, is_base64=path == base64_path)
        content = None if inner is None else parse_or_none(inner, native)
        written = _written_text(text, spliced, native)
        if inner is None or type(content) not in (dict, list) or written is None:
            return value
        spliced = spliced.replace(written, inner)
        container[path[-1]] = content
    return spliced if value is not None else None


def _container_at(parsed: Any, path: tuple[str, ...]) -> dict[str, Any]:
    """The object that contains what is at a path; an empty one if there is none."""
    for step in path[:-1]:
        parsed = parsed.get(step) if type(parsed) is dict else None
    return parsed if type(parsed) is dict else {}


def _inner_json(text: str, *, is_base64: bool) -> bytes | None:
    """The bytes of the JSON that a text may hold; ``None`` if it certainly holds neither an object nor an array."""
    if not is_base64:
        return text.encode() if text.lstrip(" \t\r\n").startswith(_BEGINNINGS) else None
    try:
        data = a2b_base64(text)
    except (Base64Error, ValueError):
        return None
    return data if b2a_base64(data, newline=False) == text.encode() else None


def _written_text(text: str, value: bytes, native: ModuleType) -> bytes | None:
    """The bytes that a record has for a text, as a usual encoder writes it; ``None`` if they are not there once."""
    for written in (native.dumps(text), dumps(text).encode()):
        if value.count(written) == 1:
            return written
    return None
