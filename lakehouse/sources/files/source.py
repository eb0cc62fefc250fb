"""The files in a folder as a source of records, and its newest records, for display."""

import logging
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sources import Files
from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.lines import FileChangedError
from lakehouse.decoding.files.reader import FileForm, FilePart, read_part
from lakehouse.decoding.record_parts import FAULT_HEADER, FILE_HEADER, HEADER
from lakehouse.errors import ReadLossError, SourceError, printable
from lakehouse.errors.causes import causes_of
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import FILE_PLACES, Plan, SourceState, first_of
from lakehouse.settings import Settings
from lakehouse.sources.files.folder import FileLog, Folder, FolderState, number_files, read_file_log, read_numbered
from lakehouse.sources.files.listing import Listing, folder_of, form_of, list_files
from lakehouse.sources.source import Source
from lakehouse.storage.table_context import TableContext, retry_on_conflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.sources.files.read import NumberedFiles

_WARNED: dict[str, tuple[str, Mapping[str, str]]] = {}
"""The run, and the files that its last warning was about, by the URI of the log of files."""
_log = logging.getLogger(__name__)
_SUSPECTS: dict[str, set[int]] = defaultdict(set)
"""Numbers of files whose bytes had changed when this process read them, by the URI of the log: they get new numbers."""
_FAILURE = re.compile(r"File(Changed|Unreadable)Error: file (\d+): (.+)")  # no names: they may have any text


def warn_of_left_out(log_uri: str, run: str, folder: str, reasons: Mapping[str, str]) -> None:
    """Warn of files and folders that are left out, with the first of their paths, unless this run has done so."""
    if _WARNED.get(log_uri, ("", {})) == (run, reasons):
        return
    _WARNED[log_uri] = (run, reasons)
    if reasons:
        texts = [printable(f"{path} ({reason})") for path, reason in sorted(reasons.items())]
        count, verb = ("1 path", "is") if len(texts) == 1 else (f"{len(texts):,} paths", "are")
        shown_texts = ", ".join(first_of(texts, "paths"))
        _log.warning("%s in the folder %s %s left out: %s", count, printable(folder), verb, shown_texts)


@dataclass(frozen=True)
class FilesSource(Source):
    """The files in a folder; a log of them gives each its number. Nothing but a run writes the log."""

    settings: Settings
    table: StreamTable
    files: Files

    @property
    def _folder(self) -> str:
        return folder_of(self.settings, self.files)

    @property
    def _suspects(self) -> set[int]:
        return _SUSPECTS[self.settings.table_uri(self.table.files_name)]

    def read_state(self, ledger: Ledger | None, limit: float) -> FolderState:  # noqa: ARG002 - a folder answers or fails
        """List the folder, and compare it with the log of its files. Raises ``SourceError``."""
        return self._state(self._list(), ledger)

    def preview_state(self, ledger: Ledger | None, limit: float) -> FolderState:  # noqa: ARG002
        """Like ``read_state``, as if the files that are new and have settled had their numbers."""
        return self._state(self._list(), ledger, looks_ahead=True)

    def _state(self, folder: Folder, ledger: Ledger | None, *, looks_ahead: bool = False) -> FolderState:
        is_new = ledger is not None and ledger.progress is None
        first = 0 if is_new else self._first_unmerged(ledger, folder.log)
        return folder.state(first, is_new=is_new, looks_ahead=looks_ahead)

    def _list(self) -> Folder:
        # the log first: a file that another run numbers after the listing would seem to be removed
        log = read_file_log(self.settings, self.table)
        return self._compare(list_files(self._folder, self.files), log)

    def _compare(self, listing: Listing, log: FileLog) -> Folder:
        return Folder(self.files, log, listing, self._suspects, self._folder)

    def read_state_after(self, ledger: Ledger | None, limit: float) -> SourceState:  # noqa: ARG002
        """Look at the log of files; the folder is not listed, since each file was compared when it was read."""
        return SourceState(self.files.folder, read_file_log(self.settings, self.table).source, {}, {})

    def register_state(self, context: TableContext, ledger: Ledger, limit: float) -> FolderState:  # noqa: ARG002
        """Number the files that are new and have settled. Warns of files that changed, or that cannot be read.

        The folder is listed once: a file that changes before it is numbered gets no number, and one that changes later
        is not the one that was numbered. If a file seems to be removed, the folder is listed again: another run may
        have numbered a file that came after the listing.
        """
        listing = retry_on_conflict(lambda: self._number(context, ledger))
        state = self._state(self._compare(listing, read_file_log(self.settings, self.table)), ledger)
        return self._state(self._list(), ledger) if state.removed else state

    def _number(self, context: TableContext, ledger: Ledger) -> Listing:
        folder = self._list()
        log, new_files, left_out = folder.log, folder.unnumbered, folder.left_out
        first = self._first_unmerged(ledger, log) or 0
        paths = sorted(path for path in new_files if path in log.newest)
        if paths:
            _log.warning("Files of %s changed, and are read again as new ones: %s", self.files.folder, paths[:5])
        if new_files or not log.table_id or log.count < first:
            listing = folder.listing
            left_out |= number_files(
                context, self._folder, first, lambda newest_log: self._compare(listing, newest_log).unnumbered
            )
        warn_of_left_out(self.settings.table_uri(self.table.files_name), context.run, self.files.folder, left_out)
        return folder.listing

    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "NumberedFiles":
        """Read the files whose numbers are in the plan, except those whose contents have a later number.

        Of files that were merged before, those that were removed or changed since are left out too.
        """
        from lakehouse.sources.files.read import NumberedFiles  # noqa: PLC0415 - only a session needs Spark

        log = read_file_log(self.settings, self.table)
        newest_numbers = {number for number, *_ in log.newest.values()}
        numbers = [
            number
            for part in plan.ranges
            for number in range(part.start // FILE_PLACES, -(-part.end // FILE_PLACES))
            if number in newest_numbers
        ]
        first = self._first_unmerged(ledger, log)
        if first is None or any(number < first for number in numbers):
            readable_numbers = self.read_state(None, 0).sizes
            numbers = [n for n in numbers if n in readable_numbers or (first is not None and n >= first)]
        rows = read_numbered(self.settings, self.table, numbers)
        with_names = any(field.place.part == f"{HEADER}{FILE_HEADER}" for field in self.table.fields)
        encoding = self.table.format.encoding
        return NumberedFiles(spark, rows, self._folder, self.files, with_names=with_names, encoding=encoding)

    def _first_unmerged(self, ledger: Ledger | None, log: FileLog) -> int | None:
        """Return the number of the next file to merge; ``None`` if the ledger has no progress in this folder."""
        progress = ledger.progress if ledger else None
        if progress is None or progress.source.identity != log.table_id:
            return None
        return progress.next_position(0) // FILE_PLACES

    @contextmanager
    def failures(self, plan: Plan, command: str) -> Iterator[None]:
        """Raise ``ReadLossError`` if a file is not the one that was numbered: the next run gives it a new number.

        Raises ``SourceError`` if a file cannot be opened, or a disk cannot read it.
        """
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - commands without Spark never read a plan
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            text = "\n".join([str(error), *(cause.line for cause in causes_of(error))])
            match = _FAILURE.search(text)
            if not match:
                raise
            path = ", ".join(read_numbered(self.settings, self.table, [int(match[2])])["path"].to_pylist())
            if match[1] == "Unreadable":
                raise self._unreadable_error(path, match[3], command) from error
            self._suspects.add(int(match[2]))
            raise ReadLossError(
                f"File {path} changed while it was read: {match[3]}",
                where=f"folder {plan.stream}",
                action=f"Nothing was merged. Run it again: {command}. Write files elsewhere and rename them into the"
                " folder when they are complete.",
            ) from error

    def _unreadable_error(self, path: str, detail: str, command: str) -> SourceError:
        return SourceError(
            f"File {path} cannot be read: {detail}",
            where=f"folder {self._folder}",
            action="Nothing was merged, and nothing is lost. Make it readable for the user who runs Spark, then run it"
            f" again: {command}. Or remove it, and accept the loss: lakehouse repair gap {self.table.name}",
        )


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
    form = form_of(files, encoding)
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
