"""The heap use of a Java process on this machine, read from the performance data file that Java writes.

``jstat`` reads the same file: a header, then entries with a name and a value. It exists if Java runs with
``UsePerfData``, its default. Java updates it after each garbage collection.
"""

import struct
import sys
import tempfile
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">IBxxx")  # the magic number, and the byte order of the rest
_TABLE_START = 24  # bytes before the start and the number of the entries
_MAGIC = 0xCAFEC0C0
_FOLDER = Path("/tmp" if sys.platform == "linux" else tempfile.gettempdir())  # noqa: S108 - Java always uses /tmp on Linux
_FULL_SHARE = 0.95  # of the heap: above it, Java does little else than collect garbage


class Heap(NamedTuple):
    """Used and maximum bytes, and the share of time since the start that garbage collection took (0 to 1)."""

    used_bytes: int
    max_bytes: int
    collector_share: float

    @property
    def is_full(self) -> bool:
        """Whether the heap is too small for the work."""
        return self.used_bytes > _FULL_SHARE * self.max_bytes or self.collector_share > 0.5

    def __str__(self) -> str:
        """The numbers in one line."""
        used_size, max_size = (size / 2**30 for size in (self.used_bytes, self.max_bytes))
        share = f"{self.collector_share:.0%} of the time in garbage collection"
        return f"{used_size:.1f} of {max_size:.1f} GiB of memory in use, {share}"


def read_heap(pid: int) -> Heap | None:
    """Return the heap of a Java process; ``None`` if its performance data cannot be read."""
    try:
        counters = dict(_read_counters((_FOLDER / f"hsperfdata_{getuser()}" / str(pid)).read_bytes()))
    except (OSError, ValueError, struct.error):
        return None
    names = [name for name in counters if name.startswith("sun.gc.generation.")]
    max_bytes = sum(counters[name] for name in names if name.endswith(".maxCapacity") and ".space." not in name)
    used_bytes = sum(counters[name] for name in names if ".space." in name and name.endswith(".used"))
    total_ticks = counters.get("sun.os.hrt.ticks", 0)
    gc_ticks = sum(counters.get(f"sun.gc.collector.{number}.time", 0) for number in (0, 1))
    return Heap(used_bytes, max_bytes, gc_ticks / total_ticks if total_ticks else 0.0) if max_bytes else None


def _read_counters(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield the names and values of the entries with one number."""
    magic, is_little_endian = _HEADER.unpack_from(data)
    byte_order = "<" if is_little_endian else ">"
    if magic != _MAGIC:
        return
    entry_start, entry_count = struct.unpack_from(f"{byte_order}II", data, _TABLE_START)
    for _ in range(entry_count):
        length, name_at, vector_length, value_type, value_at = struct.unpack_from(
            f"{byte_order}IIIcxxxI", data, entry_start
        )
        if value_type == b"J" and not vector_length:
            name_start = entry_start + name_at
            (value,) = struct.unpack_from(f"{byte_order}q", data, entry_start + value_at)
            yield data[name_start : data.index(0, name_start)].decode(), value
        entry_start += length
