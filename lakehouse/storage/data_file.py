"""A data file that workers have written, and that no commit names yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class DataFile:
    """A file of rows: its path within the table, its size in bytes, and its statistics for the log of the table.

    ``rows`` is the number of rows to write, ``stored_rows`` what the footer of the file says.
    ``late`` is the number of rows that are late, ``rounded`` that of rows with a decimal that lost digits, and
    ``unmapped_fields`` the number of rows with each unmapped field.
    """

    path: str
    size: int
    rows: int
    stored_rows: int
    stats: Mapping[str, Any]
    late: int
    unmapped_fields: Mapping[str, int]
    rounded: int = 0

    def is_intact(self, folder: str) -> bool:
        """Whether the file is in the folder of its table, with its size."""
        path = Path(folder, self.path)
        return path.exists() and path.stat().st_size == self.size
