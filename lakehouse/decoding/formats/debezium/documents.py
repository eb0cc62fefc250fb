"""Documents of MongoDB: a JSON text in which an object may name the type of a value, as ``{"$oid": "65a0..."}`` does.

They are read as plain JSON: numbers are numbers, ids and bytes in Base64 are texts, and times are texts in ISO 8601.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from lakehouse.decoding.fields import Rejection, json_kind
from lakehouse.decoding.formats.debezium.values import iso_time, milliseconds_time
from lakehouse.decoding.json_parsing import JsonOptions, parse_json
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, json_memory, too_large_rejection
from lakehouse.decoding.numbers import number_in

_NO_DOCUMENT = (
    "the change has no document: set capture.mode=change_streams_update_full in the connector. If it is set, the"
    " document was deleted before it was looked up, and its delete follows"
)
_NO_TEXT = "'after' is {}, expected the text of a document: remove documents=True unless the database is MongoDB"
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def read_document(text: Any, options: JsonOptions) -> dict[str, Any]:
    """The document that a change leaves, as plain JSON; raises ``Rejection`` if there is none."""
    if text is None:
        raise Rejection("no_document", _NO_DOCUMENT)
    if not isinstance(text, str):
        raise Rejection("invalid_change", _NO_TEXT.format(json_kind(text)))
    if json_memory(text.encode("utf-8", "surrogatepass")) > MAX_RECORD_MEMORY:
        raise too_large_rejection()
    document = parse_json(text, options, _typed_value)
    if not isinstance(document, dict):
        raise Rejection("invalid_change", f"'after' holds {json_kind(document)}, expected an object")
    return document


def _typed_value(values: dict[str, Any]) -> Any:
    """The plain value that an object means; the object itself if it names no type, or has no value of that type."""
    if not 1 <= len(values) <= 2:
        return values
    name, raw = next(iter(values.items()))
    read = _READERS.get(name)
    if read is None or (len(values) > 1 and name != "$binary"):
        return values
    value = read(raw)
    return values if value is None else value


def _text(raw: Any) -> Any:
    return raw if isinstance(raw, str) else None


def _number(raw: Any) -> Any:
    if raw in _NOT_FINITE:
        return Decimal(raw)
    return number_in(raw) if isinstance(raw, str) else None


def _time(raw: Any) -> Any:
    time = iso_time(raw) if isinstance(raw, str) else milliseconds_time(raw)
    return time.isoformat().replace("+00:00", "Z") if isinstance(time, datetime) else None


def _bytes(raw: Any) -> Any:
    return _text(raw.get("base64") if isinstance(raw, dict) else raw)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("$oid", "$uuid", "$symbol"), _text),
    **dict.fromkeys(("$numberInt", "$numberLong", "$numberDouble", "$numberDecimal"), _number),
    "$date": _time,
    "$binary": _bytes,
}
