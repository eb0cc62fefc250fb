"""What ends the records of a file too early."""


class FileFault(Exception):  # noqa: N818 - not an error: it becomes a rejected record
    """A file cannot be read beyond a place; ``detail`` says why."""

    def __init__(self, place: int, detail: str) -> None:
        super().__init__(detail)
        self.place, self.detail = place, detail


class FileChangedError(Exception):
    """The bytes of a file are not those that were numbered, or the file is gone."""


class FileUnreadableError(Exception):
    """A file that exists cannot be opened, or a disk cannot read it."""


class DataFileError(Exception):
    """A data file cannot be written: ``errno`` and its number."""
