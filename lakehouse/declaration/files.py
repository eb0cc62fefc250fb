"""``Files``: files in a folder as the source of a table."""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

_DEFAULT_SETTLE = timedelta(seconds=30)
_DEFAULT_BATCH = 2**30


@dataclass(frozen=True)
class Files:
    """The files in a folder, or below it, whose names match ``names``: each line, element or row of them is a record.

    ``folder`` is a path, also one relative to ``LAKEHOUSE_FILES``, or the URI of a place in a store. Names that begin
    with ``.`` or ``_`` are ignored. ``each="line"``: a record per line that is not blank, which ``format`` of the table
    decodes. ``"element"``: per element of a JSON array, or one for a single object. ``"row"``: per row of a Parquet or
    Avro file, as a JSON object. Names that end in ``.gz``, ``.zst`` or ``.zstd`` are decompressed. ``header`` is the
    first line of each file, which is not a record. With ``quoted_line_breaks``, a line break within quotes belongs to
    the line. A file is taken once it has not changed for ``settle``; ``timedelta(0)`` is for files that are renamed
    into the folder when they are complete. A batch takes files until they have ``batch_bytes`` bytes, at least one.
    """

    folder: str
    names: str = "*"
    each: Literal["line", "element", "row"] = "line"
    header: str = ""
    quoted_line_breaks: bool = False
    settle: timedelta = _DEFAULT_SETTLE
    batch_bytes: int = _DEFAULT_BATCH

    position_noun: ClassVar[str] = "file"
    asset_suffix: ClassVar[str] = "folder"

    @property
    def text(self) -> str:
        """The folder, as a sentence names it."""
        return f"folder {self.folder}"

    @property
    def stream(self) -> str:
        """The name of the source in commits."""
        return self.folder

    @property
    def fingerprint_parts(self) -> tuple[object, ...]:
        """What decides which records the files have."""
        return ("files", self.folder, self.names, self.each, self.header, self.quoted_line_breaks)
