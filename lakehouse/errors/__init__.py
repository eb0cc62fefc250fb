"""The errors of lakehouse: each one says what happened, where, and what to do.

``troubles`` recognises what errors of other programs mean, by their signs; add a new sign there. ``causes`` reads such
an error as a chain, and limits the wait for a program that may not respond. Add a new type here only if a person has to
act differently than for the existing ones. Every package may import this one; it imports nothing of lakehouse.

::

    LakehouseError
    ├── SettingsError      a setting cannot be used
    ├── DeclarationError   a declaration contradicts itself
    ├── SetupError         Java, a jar or another part of the machine is missing or damaged
    ├── BrokerError        the broker cannot be reached or does not respond
    │   └── BrokerRefusedError     the broker refuses access: waiting does not help
    ├── RegistryError      the schema registry cannot be reached, or an id now has another schema
    ├── CatalogError       the catalog of the tables refuses, or has another table of the name
    │   └── CatalogUnreachableError  the catalog cannot be reached: no table can be registered now
    ├── TopicError         the topic is missing or differs from the declaration
    ├── SourceError        what a table reads, files or another table, is missing or cannot be read
    │   └── SourceUnreachableError  the store of the files does not respond now: waiting helps
    ├── DataLossError      records expired or were deleted before they were merged
    │   └── ReadLossError  planned records disappeared before they were read: plan again
    ├── LedgerError        a table's history does not show its progress
    ├── ConflictError      another writer committed first, or a RESTORE voided the commit: plan again
    │   ├── ExecutorLostError      an executor died with the rows or counts that it held: plan again
    │   └── LockedError            other writers hold the table for longer than the wait limit
    ├── EngineLostError    the Spark server has ended, or closed our session
    ├── AccountingError    a batch does not account for every record that it read
    ├── BaseFileError      a base file cannot be read; nothing was loaded
    ├── TableError         a table is missing, does not match its declaration, or cannot be read or written
    │   ├── StoreUnreachableError  the table store does not respond: run it again
    │   ├── StoreRefusedError      the permissions or credentials for the table store are wrong
    │   └── TableDamagedError      a part of the table is missing or cannot be read
    └── QueryError         a query cannot be answered
"""


def printable(text: str) -> str:
    """Return the text with unprintable characters (line ends, escapes, right-to-left marks) written as escapes."""
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as "surrogateescape" decodes it
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


class LakehouseError(Exception):
    """An error that a person can act on.

    ``what`` is one sentence that states the problem, ``where`` names the place (topic, file, table), and ``action``
    says what to do next. The text of the error joins the three in one printable line.
    """

    def __init__(self, what: str, *, where: str = "", action: str = "") -> None:
        self.what = what
        self.where = where
        self.action = action
        place = f" ({where})" if where else ""
        advice = f" {action}" if action else ""
        super().__init__(printable(f"{what.rstrip('.')}{place}.{advice}"))


class SettingsError(LakehouseError):
    """A setting cannot be used."""


class DeclarationError(LakehouseError):
    """A declaration contradicts itself (raised when it is created), or Spark cannot compute its SQL."""


class SetupError(LakehouseError):
    """Java, a jar or another part of the machine is missing or damaged."""


class BrokerError(LakehouseError):
    """The broker cannot be reached or does not respond."""


class BrokerRefusedError(BrokerError):
    """The broker refuses access. Change a setting or a permission; waiting does not help."""


class RegistryError(LakehouseError):
    """The schema registry cannot be reached or used, or an id now refers to another schema."""


class CatalogError(LakehouseError):
    """The catalog refuses a registration, or has another table under the name."""


class CatalogUnreachableError(CatalogError):
    """The catalog cannot be reached, which holds for every table; waiting may help."""


class TopicError(LakehouseError):
    """The topic is missing or differs from the declaration."""


class SourceError(LakehouseError):
    """What a table reads, files or another table, is missing or cannot be read."""


class SourceUnreachableError(SourceError):
    """The store of the files does not respond now. Waiting helps, and nobody has to act."""


class DataLossError(LakehouseError):
    """Unmerged records have disappeared from the topic; a person has to accept the gap."""


class ReadLossError(DataLossError):
    """Planned records disappeared before they were read. Nothing was written; plan the batch again."""


class LedgerError(LakehouseError):
    """A table's history does not show its progress."""


class ConflictError(LakehouseError):
    """Another writer committed first, and the batch has to be planned again.

    Nothing was written, with one exception: if a RESTORE came between the plan and the commit, the commit is void but
    its rows are in the table.
    """


class ExecutorLostError(ConflictError):
    """An executor died, so its rows would be read or counted twice. Nothing was written; plan the batch again."""


class LockedError(ConflictError):
    """Other writers held the table for longer than the wait limit; nothing was written."""


class EngineLostError(LakehouseError):
    """The engine or another Spark Connect server has ended or closed our session; a new session can continue."""


class AccountingError(LakehouseError):
    """A batch does not account for every record that it read."""


class BaseFileError(LakehouseError):
    """A base file cannot be read; nothing was loaded."""


class TableError(LakehouseError):
    """A table is missing, does not match its declaration, or cannot be read or written."""


class NotConsumedError(TableError):
    """A derived table has to read the current rows before the merged table is rewritten."""


class StoreUnreachableError(TableError):
    """The table store does not respond; the tables themselves may be intact."""


class StoreRefusedError(TableError):
    """The table store denies access with these permissions or credentials."""


class TableDamagedError(TableError):
    """A part of a table is missing or cannot be read."""


class QueryError(LakehouseError):
    """A query cannot be answered."""


def restore_advice(uri: str = "", version: int | None = None) -> str:
    """Say how to restore the table at a path or URI to a version; what is unknown is in capitals in the command.

    It ends the text: a period after it would break it when it is pasted.
    """
    name = uri.rstrip("/").rpartition("/")[2] or "TABLE"
    number = "VERSION" if version is None else version
    wanted_version = "an earlier version" if version is None else f"version {version}"
    return f"To restore {wanted_version}, run: lakehouse restore {name} --version {number}"
