"""How full the heap of a Java of this machine is, as Java itself tells in a file that others may read.

The file is that of ``jstat``: a header, then entries with a name and a value. It is there where a Java runs with
``UsePerfData``, its default, and it is told after each collection of garbage.
"""

import struct
import sys
import tempfile
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">IBxxx")  # the magic number, and the order of bytes of what follows
_BODY = 24  # bytes up to where the entries begin and how many there are
_MAGIC = 0xCAFEC0C0
_FOLDER = Path("/tmp" if sys.platform == "linux" else tempfile.gettempdir())  # noqa: S108 - Java has no other there
_FULL = 0.95  # of the heap in use, behind which little else is done than to collect garbage


class Heap(NamedTuple):
    """Bytes in use and at most, and the share of the time since the start that collecting garbage took."""

    used: int
    limit: int
    collecting: float

    @property
    def full(self) -> bool:
        """Whether there is too little of it for what is done."""
        return self.used > _FULL * self.limit or self.collecting > 0.5

    def __str__(self) -> str:
        """As a person reads it."""
        used, limit = (size / 2**30 for size in (self.used, self.limit))
        return f"{used:.1f} of {limit:.1f} GiB of memory in use, {self.collecting:.0%} of its time to collect garbage"


def heap_of(pid: int) -> Heap | None:
    """The heap of a Java, ``None`` where it tells nothing of it."""
    try:
        told = dict(_numbers((_FOLDER / f"hsperfdata_{getuser()}" / str(pid)).read_bytes()))
    except (OSError, ValueError, struct.error):
        return None
    spaces = [name for name in told if name.startswith("sun.gc.generation.")]
    limit = sum(told[name] for name in spaces if name.endswith(".maxCapacity") and ".space." not in name)
    used = sum(told[name] for name in spaces if ".space." in name and name.endswith(".used"))
    passed = told.get("sun.os.hrt.ticks", 0)
    collecting = sum(told.get(f"sun.gc.collector.{number}.time", 0) for number in (0, 1))
    return Heap(used, limit, collecting / passed if passed else 0.0) if limit else None


def _numbers(data: bytes) -> Iterator[tuple[str, int]]:
    """The entries that are one number each."""
    magic, little = _HEADER.unpack_from(data)
    order = "<" if little else ">"
    if magic != _MAGIC:
        return
    place, many = struct.unpack_from(f"{order}II", data, _BODY)
    for _ in range(many):
        length, name, vector, kind, value = struct.unpack_from(f"{order}IIIcxxxI", data, place)
        if kind == b"J" and not vector:
            begun = place + name
            yield data[begun : data.index(0, begun)].decode(), struct.unpack_from(f"{order}q", data, place + value)[0]
        place += length
