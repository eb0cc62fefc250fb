"""The heap use of a Java process."""

import struct
from getpass import getuser
from pathlib import Path

import pytest

from lakehouse.local import java
from lakehouse.local.java import Heap, read_heap

SECOND = 1_000_000_000


@pytest.fixture
def data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The performance data file of the Java with process id 7."""
    monkeypatch.setattr(java, "_FOLDER", tmp_path)
    file = tmp_path / f"hsperfdata_{getuser()}" / "7"
    file.parent.mkdir()
    return file


def entry(name: str, value: int) -> bytes:
    text = name.encode() + bytes(8 - len(name) % 8)
    header = struct.pack("<IIIcxxxI", 28 + len(text), 20, 0, b"J", 20 + len(text))
    return header + text + struct.pack("<q", value)


def performance_data(**counters: int) -> bytes:
    entries = [entry(name.replace("_", "."), value) for name, value in counters.items()]
    header = struct.pack(">IBBBB", 0xCAFEC0C0, 1, 2, 0, 1) + bytes(16) + struct.pack("<II", 32, len(entries))
    return header + b"".join(entries)


def heap_data(used_bytes: int, gc_ticks: int = SECOND) -> bytes:
    return performance_data(
        sun_gc_generation_0_maxCapacity=300,
        sun_gc_generation_0_space_0_maxCapacity=300,
        sun_gc_generation_0_space_0_used=used_bytes,
        sun_gc_generation_1_maxCapacity=700,
        sun_gc_generation_1_space_0_used=100,
        sun_gc_collector_0_time=gc_ticks,
        sun_os_hrt_ticks=10 * SECOND,
    )


@pytest.mark.parametrize(("used_bytes", "gc_seconds", "is_full"), [(50, 1, False), (890, 1, True), (50, 6, True)])
def test_the_heap_is_read_from_the_performance_data(
    data_file: Path, used_bytes: int, gc_seconds: int, is_full: bool
) -> None:
    data_file.write_bytes(heap_data(used_bytes, gc_seconds * SECOND))
    heap_use = read_heap(7)
    assert heap_use == Heap(100 + used_bytes, 1000, gc_seconds / 10)
    assert heap_use.is_full == is_full


@pytest.mark.parametrize("data", [b"", b"no java", bytes(64), heap_data(50)[:60]])
def test_a_file_that_java_did_not_write_has_no_heap(data_file: Path, data: bytes) -> None:
    data_file.write_bytes(data)
    assert read_heap(7) is None


def test_a_java_without_a_file_has_no_heap(data_file: Path) -> None:
    assert read_heap(7) is None
