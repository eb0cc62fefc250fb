"""The lines that are added to a log file while it is watched."""

from pathlib import Path


class Tail:
    """Lines added to a file from now on; the file may not exist yet, or be replaced by a new one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = file.stat().st_size if file.exists() else 0

    def lines(self) -> list[str]:
        """Return the whole lines that were added since the last call; part of a line waits for its end."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as log:
            self._at = self._at if self._at <= self._file.stat().st_size else 0
            log.seek(self._at)
            added, end, _ = log.read().rpartition(b"\n")
        self._at += len(added) + len(end)
        return added.decode(errors="replace").splitlines()
