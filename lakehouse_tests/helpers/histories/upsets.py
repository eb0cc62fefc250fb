"""Faults of tables and disks, and the checks that must pass afterwards."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse.operations.verify import verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream

_LAST = "max_by(struct(change, temperature_2m_after), struct(number, source_version)) AS last"


def assert_all_is_right(stream: Stream) -> None:
    """Refresh feed and rollup; check that they match the merged table and that all records are accounted for."""
    stream.refresh()
    key = "latitude, longitude, observed_at"
    latest_changes = stream.sql(
        f"SELECT {key}, last.temperature_2m_after FROM (SELECT {key}, {_LAST} FROM {{changes}} GROUP BY {key})"
        " WHERE last.change <> 'delete' ORDER BY 1, 2, 3"
    )
    assert latest_changes == stream.sql(f"SELECT {key}, temperature_2m FROM {{t}} ORDER BY 1, 2, 3")
    finding = verify_rollup(stream.context, stream.table.rollups[0])
    assert finding.passed, finding.detail
    stream.assert_accounted()


@contextmanager
def undo_afterwards(folder: Path, aside: Path) -> Iterator[None]:
    """Restore a folder at the end of the block, regardless of its changes."""
    shutil.copytree(folder, aside / folder.name)
    try:
        yield
    finally:
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink(missing_ok=True)
        shutil.move(aside / folder.name, folder)


class Disk:
    """A small disk that is mounted on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filling = folder / "filling"

    def remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", self.folder], check=True)

    def fill(self, free_bytes: int = 0) -> None:
        """Fill the disk except for ``free_bytes`` bytes."""
        disk = os.statvfs(self.folder)
        self._filling.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - free_bytes)))

    def clear(self) -> None:
        self._filling.unlink(missing_ok=True)


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Disk]:
    """Mount a small disk; skip the test if the machine does not allow it."""
    folder.mkdir()
    try:
        process = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        pytest.skip(f"The mount command is missing: {error}")
    if process.returncode:
        pytest.skip(f"A small disk cannot be mounted here: {process.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", folder], check=True)
