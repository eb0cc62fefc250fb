"""The protocol of SQL Server as its specification describes it: reads messages of a client, and writes answers."""

import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any, NamedTuple

BATCH, RPC, REPLY, BULK, LOGIN, PRELOGIN = 1, 3, 4, 7, 16, 18  # the kinds of messages
_HEADER = struct.Struct(">BBHHBB")
_MARKER = 0xFFFF
_PLP_NULL = 2**64 - 1
_FIRST_DAY = date(1, 1, 1)
Rows = Sequence[tuple[Any, ...]]


class Column(NamedTuple):
    """A column of a bulk load; ``read`` reads a value of it."""

    name: str
    read: Callable[[], Any]


class Reader:
    """Reads the values of one message."""

    def __init__(self, data: bytes) -> None:
        self._data = BytesIO(data)

    def take(self, size: int) -> bytes:
        data = self._data.read(size)
        assert len(data) == size, "the message is too short"
        return data

    def number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def text(self, characters: int) -> str:
        return self.take(2 * characters).decode("utf-16-le")

    def rest(self) -> bytes:
        return self._data.read()

    def skip_headers(self) -> None:
        self.take(self.number(4) - 4)

    def _parts(self) -> bytes | None:
        """Read a long value in parts."""
        if self.number(8) == _PLP_NULL:
            return None
        return b"".join(self.take(size) for size in iter(lambda: self.number(4), 0))

    def value_reader(self) -> Callable[[], Any]:
        """Read the description of a type, and return what reads its values."""
        type_ = self.number(1)
        if type_ in (0x26, 0x68, 0x6D):  # integers, bits, floating point numbers
            self.number(1)
            return lambda: self._number_of(type_, self.take(self.number(1)))
        if type_ in (0x6A, 0x6C):
            _, _, scale = self.take(3)
            return lambda: _decimal(self.take(self.number(1)), scale)
        if type_ == 0x28:
            return lambda: _day(self.take(self.number(1)))
        if type_ in (0x2A, 0x2B):
            scale = self.number(1)
            return lambda: _time(self.take(self.number(1)), scale, has_offset=type_ == 0x2B)
        assert type_ in (0xE7, 0xA5), f"type {type_:x}"
        is_long, is_text = self.number(2) == _MARKER, type_ == 0xE7
        self.take(5 if is_text else 0)
        decode = (lambda data: data.decode("utf-16-le", "strict")) if is_text else bytes

        def read() -> Any:
            data = self._parts() if is_long else self._short()
            return None if data is None else decode(data)

        return read

    def _short(self) -> bytes | None:
        size = self.number(2)
        return None if size == _MARKER else self.take(size)

    @staticmethod
    def _number_of(type_: int, data: bytes) -> Any:
        if not data:
            return None
        if type_ == 0x6D:
            return struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
        number = int.from_bytes(data, "little", signed=True)
        return bool(number) if type_ == 0x68 else number

    def parameters(self) -> Iterator[tuple[str, Any]]:
        """Read what a procedure is called with."""
        while size := self._data.read(1):
            name = self.text(size[0])
            self.number(1)
            yield name, self.value_reader()()

    def loaded_rows(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Read a bulk load: the names of its columns, and its rows."""
        assert self.number(1) == 0x81
        columns = [self._column() for _ in range(self.number(2))]
        rows = []
        while (token := self.number(1)) == 0xD1:
            rows.append(tuple(column.read() for column in columns))
        assert token == 0xFD, "the load is cut off"
        return [column.name for column in columns], rows

    def _column(self) -> Column:
        self.number(4), self.number(2)
        read = self.value_reader()
        return Column(self.text(self.number(1)), read)


def _decimal(data: bytes, scale: int) -> Decimal | None:
    if not data:
        return None
    assert data[0] == 1 or any(data[1:]), "a zero that is negative"
    digits = tuple(map(int, str(int.from_bytes(data[1:], "little"))))
    return Decimal((1 - data[0], digits, -scale))


def _day(data: bytes) -> date | None:
    return _FIRST_DAY + timedelta(days=int.from_bytes(data, "little")) if data else None


def _time(data: bytes, scale: int, *, has_offset: bool) -> datetime | None:
    if not data:
        return None
    days = data[-5:-2] if has_offset else data[-3:]
    units = int.from_bytes(data[: -5 if has_offset else -3], "little")
    assert scale == 6
    time = datetime(1, 1, 1) + timedelta(days=int.from_bytes(days, "little"), microseconds=units)
    return time.replace(tzinfo=UTC) if has_offset else time


def read_message(receive: Callable[[int], bytes]) -> tuple[int, bytes] | None:
    """Read a message of one or more packets; ``None`` if the client ended the connection, also amid a message."""
    parts = []
    while len(header := _exactly(receive, _HEADER.size)) == _HEADER.size:
        type_, status, size, *_ = _HEADER.unpack(header)
        parts.append(_exactly(receive, size - _HEADER.size))
        if status & 1:
            return type_, b"".join(parts)
    return None


def _exactly(receive: Callable[[int], bytes], size: int) -> bytes:
    """Read so many bytes; fewer if the client ended the connection."""
    data = b""
    while len(data) < size and (part := receive(size - len(data))):
        data += part
    return data


def packets(data: bytes, type_: int = REPLY, size: int = 4088) -> bytes:
    """Return an answer in packets."""
    parts = [data[start : start + size] for start in range(0, len(data), size)] or [b""]
    return b"".join(_HEADER.pack(type_, part is parts[-1], len(part) + _HEADER.size, 0, 1, 0) + part for part in parts)


def prelogin(encryption: int) -> bytes:
    """The first answer: the version, and whether the connection is encrypted (1) or cannot be (2)."""
    return struct.pack(">BHHBHHB", 0, 11, 6, 1, 17, 1, 255) + bytes([16, 0, 0, 0, 0, 0, encryption])


def login_answer(database: str) -> bytes:
    name = "Microsoft SQL Server".encode("utf-16-le")
    body = struct.pack(">BLB", 1, 0x74000004, len(name) // 2) + name + bytes([16, 0, 0, 0])
    collation = bytes([0xE3, 8, 0, 7, 5, 0x09, 0x04, 0xD0, 0x00, 0x34, 0])
    text = bytes([len(database)]) + database.encode("utf-16-le") + b"\0"
    collation += b"\xe3" + struct.pack("<HB", len(text) + 1, 1) + text
    return collation + b"\xad" + struct.pack("<H", len(body)) + body + end_of_answer()


def end_of_answer(status: int = 0) -> bytes:
    """The end of an answer to a batch of statements."""
    return struct.pack("<BHHQ", 0xFD, status, 0, 0)


def end_of_procedure() -> bytes:
    """The end of an answer to a procedure: what it returns, and the end."""
    return struct.pack("<BL", 0x79, 0) + struct.pack("<BHHQ", 0xFE, 0, 0, 0)


def error(number: int, text: str) -> bytes:
    """An error, and the end of the answer."""
    message = text[:500].encode("utf-16-le")
    body = struct.pack("<LBBH", number, 1, 16, len(message) // 2) + message + b"\0\0" + struct.pack("<L", 1)
    return b"\xaa" + struct.pack("<H", len(body)) + body + end_of_answer(status=2)


def result(names: Sequence[str], rows: Rows) -> bytes:
    """A result of whole numbers and texts, after which more may come."""
    kinds = [all(row[place] is None or isinstance(row[place], int) for row in rows) for place in range(len(names))]
    data = b"\x81" + struct.pack("<H", len(names))
    for name, is_number in zip(names, kinds, strict=True):
        type_ = b"\x26\x08" if is_number else b"\xe7\xff\xff" + bytes(5)
        data += struct.pack("<LH", 0, 1) + type_ + bytes([len(name)]) + name.encode("utf-16-le")
    for row in rows:
        data += b"\xd1" + b"".join(_written(value, number) for value, number in zip(row, kinds, strict=True))
    return data + struct.pack("<BHHQ", 0xFF, 0x11, 0xC1, len(rows))


def _written(value: Any, is_number: bool) -> bytes:
    if is_number:
        return b"\0" if value is None else b"\x08" + struct.pack("<q", value)
    if value is None:
        return struct.pack("<Q", _PLP_NULL)
    text = str(value).encode("utf-16-le")
    return struct.pack("<QL", len(text), len(text)) + text + bytes(4 if text else 0)
