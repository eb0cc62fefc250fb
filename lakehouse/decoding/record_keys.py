"""Parse the keys of records that are JSON, Avro or Protobuf.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats import KEY_FORMATS
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Schemas
from lakehouse.decoding.formats.framing import FRAME_SIZE, split_frame
from lakehouse.decoding.json_parsing import parse_json, utf8_text
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, json_memory, too_large_rejection
from lakehouse.decoding.record_parts import PARSED_KEY
from lakehouse.decoding.values import ParsedKey, split_window

KeyParser = Callable[[bytes | None], ParsedKey | None]
"""Parse a key; ``None`` if the record has none."""


def key_format(fields: Iterable[Field]) -> Format | None:
    """Return the format of the keys that these fields are read from, if it needs schemas."""
    return next(
        (KEY_FORMATS[field.place.key_encoding] for field in fields if field.place.key_encoding in KEY_FORMATS), None
    )


def key_parser(fields: Iterable[Field], schemas: Schemas = NO_SCHEMAS) -> KeyParser | None:
    """Return the parser of the keys that these fields are read from; ``None`` if they read no key that is parsed.

    ``schemas`` are those that the ids in front of keys refer to.
    """
    key_field = next((field for field in fields if field.place.part == PARSED_KEY), None)
    if key_field is None:
        return None
    encoding, window = key_field.place.key_encoding, key_field.place.key_window
    form = KEY_FORMATS.get(encoding)
    parse_present: Callable[[bytes], Any] = form.parser(schemas) if form else _JSON_PARSERS[encoding]

    def parse_key(key: bytes | None) -> ParsedKey | None:
        if key is None:
            return None
        try:
            return ParsedKey(parse_present(split_window(key, window).key if window else key))
        except Rejection as rejection:
            return ParsedKey(None, (_about_key(rejection) if encoding != "json" else rejection).without_frames())

    return parse_key


def _parse_json(key: bytes) -> Any:
    if json_memory(key) > MAX_RECORD_MEMORY:
        raise too_large_rejection()
    return parse_json(utf8_text(key))


def _about_key(rejection: Rejection) -> Rejection:
    """The rejection of a framed value as that of a key."""
    replacement = _OF_KEYS.get(rejection.reason)
    return Rejection(rejection.reason, rejection.detail.replace(*replacement)) if replacement else rejection


_OF_KEYS = {
    "empty_value": ("the value", "the key"),
    "truncated": ("the record", "the key"),
    "trailing_bytes": ("the record", "the key"),
    "wrong_magic": ("a value", "a key"),
}
_JSON_PARSERS: Mapping[str, Callable[[bytes], Any]] = {
    "json": _parse_json,
    "framed_json": lambda key: _parse_json(split_frame(key)[1][FRAME_SIZE:]),
}
