"""Where tables and their files are: on a disk of this machine, or in an object store. No other module tells."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_OF_FILES = "file:"
# an object store that does not answer: by default it is asked again for three minutes
_PATIENCE = {"timeout": "10s", "connect_timeout": "3s", "max_retries": "3", "retry_timeout": "15s"}


@dataclass(frozen=True)
class Store:
    """A place of tables, of one table or of a file, by its path or its URI."""

    uri: str

    @property
    def is_path(self) -> bool:
        """Whether it is named by its path: then its files are looked at, and few rows written, without Spark."""
        return "://" not in self.uri and not self.uri.startswith(_OF_FILES)

    @property
    def folder(self) -> Path | None:
        """The folder on a local disk, also where a URI names it; ``None``: it is in an object store."""
        if self.is_path:
            return Path(self.uri)
        return Path(unquote(urlsplit(self.uri).path)) if self.uri.startswith(_OF_FILES) else None

    @property
    def lock(self) -> Path | None:
        """Where the lock of the table of that folder lies; ``None`` where the table is on no local disk."""
        return self.folder.parent / ".locks" / self.folder.name if self.folder else None

    @property
    def options(self) -> dict[str, str] | None:
        """What deltalake is told of an object store; ``None`` for a local disk."""
        return dict(_PATIENCE) if self.folder is None else None
