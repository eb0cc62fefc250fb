"""The newest records of the files in a folder, for display."""

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

from lakehouse.declaration.sources import Files
from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.fault import FileChangedError
from lakehouse.decoding.files.reader import FileForm, FilePart, read_part
from lakehouse.decoding.record_parts import FAULT_HEADER, FILE_HEADER
from lakehouse.settings import Settings
from lakehouse.sources.files.listing import folder_of, list_files


@dataclass(frozen=True)
class FileRecord:
    """One record of a file: the path of the file, the place in it, and the time of the last change of the file."""

    path: str
    place: int
    modified: int
    value: bytes | None
    fault: str | None
    key: bytes | None = None
    partition: int = 0  # the only one of a folder

    @property
    def shown_place(self) -> dict[str, str | int]:
        """Where it is in the folder, by name."""
        return {"file": self.path, "place": self.place}

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """The path, and the reason if this is in place of the unreadable rest of its file."""
        faults = ((FAULT_HEADER, self.fault.encode()),) if self.fault else ()
        return ((FILE_HEADER, self.path.encode()), *faults)

    @property
    def milliseconds(self) -> int:
        """When the file was last changed, since 1970, UTC."""
        return self.modified // 1_000

    @property
    def time(self) -> datetime:
        """When the file was last changed, UTC."""
        return datetime.fromtimestamp(self.modified / 1_000_000, UTC)


def newest_records(settings: Settings, files: Files, count: int, encoding: str = "utf-8") -> list[FileRecord]:
    """Return the last records of the newest files, at most ``count``, the newest last; changes nothing.

    ``encoding`` is that of their lines. Files without a number count too. One that changes meanwhile is left out.
    Raises ``SourceError``.
    """
    folder = folder_of(settings, files)
    form = FileForm(files.each, files.header, files.quoted_line_breaks, encoding=encoding)
    facts, records = list_files(folder, files).facts, list[FileRecord]()
    for path in sorted(facts, key=lambda path: (facts[path].modified, path), reverse=True):
        if len(records) >= count:
            break
        part = FilePart(folder, path, [])
        records = [*_last_records(part, facts[path].modified, form, count - len(records)), *records]
    return records


def _last_records(part: FilePart, modified: int, form: FileForm, count: int) -> list[FileRecord]:
    last_records = deque[FileRecord](maxlen=count)
    try:
        part = part._replace(hashes=chunk_hashes(part.folder, part.path))
        for slice_ in read_part(part, form):
            pairs = zip(slice_.places[-count:], slice_.values[-count:], strict=True)
            last_records.extend(FileRecord(part.path, int(p), modified, v.as_py(), slice_.fault) for p, v in pairs)
    except (FileChangedError, OSError):
        return []
    return list(last_records)
