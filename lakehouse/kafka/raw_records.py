"""Records with their own key, headers, partition and time, each from one line of JSON."""

from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.fields import Rejection, is_text, json_kind
from lakehouse.decoding.json_parsing import parse_json, utf8_text

_MEMBERS = ("key", "key_base64", "value", "value_base64", "headers", "headers_base64", "partition", "timestamp")
_GREATEST = 2**63 - 1
_read_base64 = byte_reader("base64")


class RawRecord(NamedTuple):
    """A record to send; without a partition the key decides, and ``milliseconds`` is its time since 1970, UTC.

    Without a time, and in a topic whose broker sets the times, it gets the time at which it is sent.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    milliseconds: int | None = None


class UnreadableLineError(Exception):
    """A line that describes no record: its number, and why."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"Line {number:,} is not a record: {reason}")
        self.number = number


def read_raw_records(lines: Iterable[bytes], partitions: Collection[int]) -> Iterator[RawRecord]:
    """Yield the record of each line, as it comes; ``UnreadableLineError`` at the first line that describes none.

    A line is a JSON object. ``value`` is a text, sent in UTF-8, or null; ``value_base64`` has its bytes instead. The
    same holds for ``key``, which may be missing unless the value is null. ``headers`` and ``headers_base64`` are
    objects of texts. ``partition`` is one of ``partitions``, and ``timestamp`` is in milliseconds since 1970, UTC.
    """
    for number, line in enumerate(lines, 1):
        try:
            yield _read_record(parse_json(utf8_text(line)), partitions)
        except Rejection as error:
            raise UnreadableLineError(number, error.detail) from None
        except ValueError as error:
            raise UnreadableLineError(number, str(error)) from None


def _read_record(raw: Any, partitions: Collection[int]) -> RawRecord:
    if not isinstance(raw, dict):
        raise ValueError(f"expected an object, not {json_kind(raw)}")
    unknown_names = [name for name in raw if name not in _MEMBERS]
    if unknown_names:
        raise ValueError(f"unknown member {unknown_names[0]!r}; the members are {', '.join(_MEMBERS)}")
    if "value" not in raw and "value_base64" not in raw:
        raise ValueError("value and value_base64 are missing; a tombstone has the value null")
    partition, milliseconds = _read_whole(raw, "partition"), _read_whole(raw, "timestamp")
    if partition is not None and partition not in partitions:
        raise ValueError(f"partition must be one of the {len(partitions):,} partitions of the topic, from 0")
    headers = (*_read_headers(raw, "headers"), *_read_headers(raw, "headers_base64"))
    value, key = _read_bytes(raw, "value"), _read_bytes(raw, "key")
    if value is None and key is None:
        raise ValueError("neither value nor key has bytes, and the producer sends no such record")
    return RawRecord(value, key, headers, partition, milliseconds)


def _read_whole(raw: dict[str, Any], name: str) -> int | None:
    number = raw.get(name)
    if number is None:
        return None
    if not isinstance(number, Decimal) or not 0 <= number <= _GREATEST or number % 1:
        raise ValueError(f"{name} must be a whole number, 0 or more")
    return int(number)


def _read_bytes(raw: dict[str, Any], name: str) -> bytes | None:
    if name in raw and f"{name}_base64" in raw:
        raise ValueError(f"{name} and {name}_base64 are both given")
    given_name = name if name in raw else f"{name}_base64"
    return None if raw.get(given_name) is None else _encode(raw[given_name], given_name)


def _read_headers(raw: dict[str, Any], name: str) -> Iterator[tuple[str, bytes]]:
    headers = raw.get(name)
    if headers is None:
        return
    if not isinstance(headers, dict):
        raise ValueError(f"{name} must be an object, not {json_kind(headers)}")
    for header, text in headers.items():
        if not is_text(header):
            raise ValueError(f"a name in {name} has half of a surrogate pair")
        yield header, _encode(text, name)


def _encode(text: Any, name: str) -> bytes:
    """The bytes of a text of a member."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be text, not {json_kind(text)}; write JSON as text, or bytes as base64")
    if not name.endswith("_base64"):
        if not is_text(text):
            raise ValueError(f"{name} has half of a surrogate pair")
        return text.encode()
    data = _read_base64(text)
    if data is None:
        raise ValueError(f"{name} is not valid base64")
    return data
