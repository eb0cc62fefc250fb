"""The position of a change in the order of its source, from what a connector says about the source.

Pure and self-contained (the standard library only).
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any
from zlib import crc32

from lakehouse.decoding.fields import Rejection, short_text

MONGODB = (
    "the change is of MongoDB, whose documents are texts: declare format=Debezium(documents=True), and read the key"
    " with source=RecordKey('json', 'id')"
)
"""What to declare for changes of MongoDB."""
_LIMIT = 2**63
_NAME_BITS = 2**31 - 1
_BINLOG_FILE = re.compile(r".+\.(\d{1,10})", re.ASCII | re.DOTALL)


def source_position(source: Mapping[str, Any]) -> int:
    """Return the position of a change, which grows with every later change of the same row.

    A snapshot has one position for all its rows. A transaction that was open when it was taken has changes with smaller
    positions, which are newer than the snapshot all the same.

    PostgreSQL: the LSN of the change. MySQL and MariaDB: the number of the binlog file, and the position in it. Raises
    ``Rejection`` with the reason ``no_source_position`` if there is neither.
    """
    if (lsn := _whole(source.get("lsn"))) is not None:
        return lsn
    file, position = source.get("file"), _whole(source.get("pos"))
    match = _BINLOG_FILE.fullmatch(file) if isinstance(file, str) else None
    if match and position is not None and int(match[1]) < 2**31 and position < 2**32:
        return (int(match[1]) << 32) + position
    raise Rejection("no_source_position", _explain(source))


def document_position(source: Mapping[str, Any]) -> int:
    """Return the position of a change of MongoDB: its second, and its number in it. Raises like ``source_position``."""
    milliseconds, number = _whole(source.get("ts_ms")), _whole(source.get("ord"))
    if milliseconds is None or number is None or milliseconds >= 2**31 * 1000 or number >= 2**32:
        detail = "'ts_ms' and 'ord' of the source do not say when MongoDB made the change"
        raise Rejection("no_source_position", detail)
    return (milliseconds // 1000 << 32) + number


def source_origin(source: Mapping[str, Any]) -> int | None:
    """Return a number for the server and the name of the binlog, in which positions grow; ``None`` without a binlog.

    The low 32 bits are the id of the server, 0 if it is not sent.
    """
    file = source.get("file")
    match = _BINLOG_FILE.fullmatch(file) if isinstance(file, str) else None
    if match is None or _whole(source.get("lsn")) is not None:
        return None
    name, server = match.string[: match.start(1)], _whole(source.get("server_id")) or 0
    return ((crc32(name.encode(errors="replace")) & _NAME_BITS) << 32) + server % 2**32


def is_of_mongodb(message: Any) -> bool:
    """Whether a message is a change of MongoDB in its envelope."""
    source = message.get("source") if isinstance(message, dict) else None
    return isinstance(source, dict) and source.get("connector") == "mongodb" and "op" in message


def _whole(raw: Any) -> int | None:
    """A whole number that is not negative; ``None`` if the value is none."""
    if type(raw) is int:
        return raw if 0 <= raw < _LIMIT else None
    if not isinstance(raw, Decimal) or not isfinite(raw):
        return None
    return int(raw) if 0 <= raw < _LIMIT and raw == int(raw) else None


def _explain(source: Mapping[str, Any]) -> str:
    connector = source.get("connector")
    if connector == "mongodb":
        return MONGODB
    subject = f"the connector {short_text(connector)}" if isinstance(connector, str) else "the record"
    return (
        f"{subject} gives neither an LSN of PostgreSQL nor a binlog file and position of MySQL; for flattened"
        " records, add source.lsn, or source.file,source.pos, to add.fields"
    )
