"""The lines that are appended to a log file."""

from pathlib import Path


class Tail:
    """New lines of a file. The file may not exist yet, or be replaced by a new one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._end = file.stat().st_size if file.exists() else 0

    def lines(self) -> list[str]:
        """Return the complete lines appended since the last call; an incomplete line waits for its end."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as log:
            self._end = self._end if self._end <= self._file.stat().st_size else 0
            log.seek(self._end)
            new_lines, line_end, _ = log.read().rpartition(b"\n")
        self._end += len(new_lines) + len(line_end)
        return new_lines.decode(errors="replace").splitlines()
