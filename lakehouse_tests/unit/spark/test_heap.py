"""How full the heap of a Java is."""

import struct
from getpass import getuser
from pathlib import Path

import pytest

from lakehouse.spark import heap
from lakehouse.spark.heap import Heap, heap_of

SECOND = 1_000_000_000


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the Java with number 7 tells of itself."""
    monkeypatch.setattr(heap, "_FOLDER", tmp_path)
    file = tmp_path / f"hsperfdata_{getuser()}" / "7"
    file.parent.mkdir()
    return file


def entry(name: str, value: int) -> bytes:
    text = name.encode() + bytes(8 - len(name) % 8)
    head = struct.pack("<IIIcxxxI", 28 + len(text), 20, 0, b"J", 20 + len(text))
    return head + text + struct.pack("<q", value)


def written(**numbers: int) -> bytes:
    entries = [entry(name.replace("_", "."), value) for name, value in numbers.items()]
    head = struct.pack(">IBBBB", 0xCAFEC0C0, 1, 2, 0, 1) + bytes(16) + struct.pack("<II", 32, len(entries))
    return head + b"".join(entries)


def of(used: int, collecting: int = SECOND) -> bytes:
    return written(
        sun_gc_generation_0_maxCapacity=300,
        sun_gc_generation_0_space_0_maxCapacity=300,
        sun_gc_generation_0_space_0_used=used,
        sun_gc_generation_1_maxCapacity=700,
        sun_gc_generation_1_space_0_used=100,
        sun_gc_collector_0_time=collecting,
        sun_os_hrt_ticks=10 * SECOND,
    )


@pytest.mark.parametrize(("used", "collecting", "full"), [(50, 1, False), (890, 1, True), (50, 6, True)])
def test_a_java_tells_how_full_its_heap_is(told: Path, used: int, collecting: int, full: bool) -> None:
    told.write_bytes(of(used, collecting * SECOND))
    found = heap_of(7)
    assert found == Heap(100 + used, 1000, collecting / 10)
    assert found.full == full


@pytest.mark.parametrize("data", [b"", b"no java", bytes(64), of(50)[:60]])
def test_of_a_file_that_is_none_of_java_nothing_is_told(told: Path, data: bytes) -> None:
    told.write_bytes(data)
    assert heap_of(7) is None


def test_a_java_without_a_file_tells_nothing(told: Path) -> None:
    assert heap_of(7) is None
