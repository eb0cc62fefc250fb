"""A record for each row of a Parquet or Avro file: a JSON object; its place is the number of the row, from 0.

Numbers keep their digits. Times are ISO 8601, in UTC if they have a zone. Bytes are base64. NaN and infinities are
bare words, which JSON does not have: the declaration decides about them.
"""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.decoding.files.lines import MAX_LINE, FileFault, PlacedValues

_SLICE = 1_000  # rows that are written at once


def parquet_rows(data: bytes) -> Iterator[PlacedValues]:
    """Yield the rows of a Parquet file; raises ``FileFault`` if it cannot be read.

    A row with a value that has no text, such as a time in the year 10000, is a text that no row has: it rejects itself.
    """
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - only Parquet needs it

    place = 0
    try:
        file = ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us")  # by default, years wrap around
        _require_distinct(file.schema_arrow.names)
        for batch in file.iter_batches(_SLICE):
            yield from _placed(place, _texts_of(batch))
            place += len(batch)
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise FileFault(place, f"the Parquet file cannot be read beyond row {place:,}: {_line(error)}") from None


def avro_rows(data: bytes) -> Iterator[PlacedValues]:
    """Yield the rows of an Avro file; raises ``FileFault``, after the rows before it, if it cannot be read."""
    import io  # noqa: PLC0415

    from fastavro import reader  # noqa: PLC0415 - only Avro needs it

    place, texts = 0, list[bytes]()
    fault = None
    try:
        for row in reader(io.BytesIO(data)):
            texts.append(write_row(row))
            if len(texts) == _SLICE:
                yield from _placed(place, texts)
                place, texts = place + _SLICE, []
    except MemoryError:
        raise
    except Exception as error:  # of many kinds, if the data is damaged
        end = place + len(texts)
        fault = FileFault(end, f"the Avro file cannot be read beyond row {end:,}: {_line(error)}")
    yield from _placed(place, texts)
    if fault:
        raise fault


def _placed(place: int, texts: list[bytes]) -> Iterator[PlacedValues]:
    """Yield rows in slices with few bytes; raises ``FileFault`` for a row that is too long for a record."""
    first = size = 0
    for index, text in enumerate(texts):
        size += len(text)
        if len(text) > MAX_LINE:
            raise FileFault(place + index, f"row {place + index:,} has {len(text):,} bytes")
        if size > MAX_LINE:
            yield np.arange(place + first, place + index), pa.array(texts[first:index], pa.binary())
            first, size = index, len(text)
    if first < len(texts):
        yield np.arange(place + first, place + len(texts)), pa.array(texts[first:], pa.binary())


def _require_distinct(names: list[str]) -> None:
    doubled_names = sorted({name for name in names if names.count(name) > 1})
    if doubled_names:
        raise FileFault(0, f"two columns of the Parquet file are named {doubled_names[0]!r}")


def _texts_of(batch: pa.RecordBatch) -> list[bytes]:
    """Return the texts of rows; if one of them has none, the others are found one by one."""
    try:
        return [write_row(row) for row in _exact_rows(batch)]
    except (pa.ArrowException, ValueError, OverflowError, KeyError) as error:
        if len(batch) == 1:
            return [f"a row that has no text: {_line(error)}".encode()]
        return [text for index in range(len(batch)) for text in _texts_of(batch.slice(index, 1))]


def _exact_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows; a 32-bit float is the shortest decimal that it is the nearest one of."""
    names, columns = batch.schema.names, [_exact_values(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _exact_values(column: pa.Array) -> list[Any]:
    if pa.types.is_float32(column.type):
        texts = column.cast(pa.string()).to_pylist()
        return [text if text is None else _float_of(text) for text in texts]
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        zone = "Z" if column.type.tz else ""
        texts = column.cast(pa.timestamp("ns")).cast(pa.string()).to_pylist()
        return [text if text is None else text.replace(" ", "T") + zone for text in texts]
    return list(column.to_pylist(maps_as_pydicts="strict"))


def _float_of(text: str) -> Any:
    number = float(text)
    return number if number != number or number in (float("inf"), float("-inf")) else Decimal(text)  # noqa: PLR0124


def write_row(row: Any) -> bytes:
    """Return a row as a JSON object."""
    return _text_of(row).encode("utf-8", "surrogatepass")


def _text_of(value: Any) -> str:
    for type_, write in _WRITERS:
        if isinstance(value, type_):
            return write(value)
    return json.dumps(str(value))


def _object_text(value: dict[Any, Any]) -> str:
    return "{" + ",".join(f"{json.dumps(str(name))}:{_text_of(item)}" for name, item in value.items()) + "}"


def _time_text(value: datetime) -> str:
    text = value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z" if value.tzinfo else value.isoformat()
    return f'"{text}"'


_WRITERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (str, lambda value: json.dumps(value, ensure_ascii=False)),
    (bool, lambda value: "true" if value else "false"),
    (int, str),
    (float, json.dumps),
    (type(None), lambda _: "null"),
    (Decimal, "{:f}".format),
    (datetime, _time_text),
    ((date, time), lambda value: f'"{value.isoformat()}"'),
    (timedelta, lambda value: str(value // timedelta(microseconds=1))),
    (bytes, lambda value: f'"{base64.b64encode(value).decode()}"'),
    (dict, _object_text),
    (list, lambda value: f"[{','.join(map(_text_of, value))}]"),
)


def _line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
