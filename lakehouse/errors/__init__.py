"""What can go wrong, as types: each error says what happened, where, and what to do.

``troubles`` tells what errors of other programs mean, ``causes`` reads such an error as a chain: another sign by which
one is known goes to the first. ``time_limit`` asks a program that may be silent. A new type goes here where a person
has to do something else than for those there are. Everything may import this package; it imports nothing of ours.

::

    LakehouseError
    ├── SettingsError      a setting cannot be used
    ├── DeclarationError   a declaration contradicts itself
    ├── SetupError         Java, a jar or another part of the machine is missing or damaged
    ├── BrokerError        the broker cannot be reached or does not answer
    │   └── BrokerRefusedError     it is there and refuses us: to wait does not help
    ├── RegistryError      the schema registry cannot be reached, or gives an id another meaning
    ├── TopicError         the topic is missing or is not what the declaration says
    ├── DataLossError      records that were never merged are gone from the topic
    │   └── ReadLossError  those of a plan went away before they were read: plan again
    ├── LedgerError        a table's history does not say how far it got
    ├── ConflictError      somebody else committed first, or a RESTORE made the commit void: plan again
    │   ├── ExecutorLostError      what Spark held or counted went with it: plan again
    │   └── LockedError            others write for longer than we wait for them
    ├── EngineLostError    the Spark over which we worked has ended, or gave our session up
    ├── AccountingError    a batch does not account for every record it read
    ├── BaseFileError      a base file cannot be read; nothing was loaded
    ├── TableError         a table is missing or does not fit its declaration, or cannot be read or written
    │   ├── StoreUnreachableError  the store of the tables does not answer: run it again
    │   ├── StoreRefusedError      no permission, or credentials that do not hold
    │   └── TableDamagedError      a part of the table is missing or cannot be read
    └── QueryError         a query cannot be answered
"""


def printable(text: str) -> str:
    """A text with what a terminal or a log would obey (line ends, escapes, right-to-left marks) written out."""
    return "".join(each if each.isprintable() else _written_out(each) for each in text)


def _written_out(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as "surrogateescape" decodes it
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


class LakehouseError(Exception):
    """An error a person can act on.

    ``what`` is one sentence of fact, ``where`` names the place (topic, file, table), ``action`` says
    what to do next. The text of the error is the three together, printable and in one line.
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
    """A declaration contradicts itself, which is raised when it is made; or Spark cannot compute its SQL."""


class SetupError(LakehouseError):
    """Java, a jar or another part of the machine is missing or damaged."""


class BrokerError(LakehouseError):
    """The broker cannot be reached or does not answer."""


class BrokerRefusedError(BrokerError):
    """The broker is there and refuses us; a setting or a right has to change, and to wait does not help."""


class RegistryError(LakehouseError):
    """The schema registry cannot be reached or used, or an id means another schema there than it did."""


class TopicError(LakehouseError):
    """The topic is missing or is not what the declaration says."""


class DataLossError(LakehouseError):
    """Records that were never merged are gone from the topic; a person has to accept the gap."""


class ReadLossError(DataLossError):
    """Records of a plan went away before they were read; nothing was written, the batch has to be planned again."""


class LedgerError(LakehouseError):
    """A table's history does not say how far it got."""


class ConflictError(LakehouseError):
    """Another writer committed first, and the batch has to be planned again.

    Nothing was written; or, where a RESTORE came between its plan and its commit, that is void, with rows in the table.
    """


class ExecutorLostError(ConflictError):
    """What Spark held or counted there would be read or counted twice; nothing was written, plan it again."""


class LockedError(ConflictError):
    """The table was free at no time for longer than we wait, as others wrote it; nothing was written."""


class EngineLostError(LakehouseError):
    """The engine, or another Spark Connect server, has ended or gave our session up; a new session goes on."""


class AccountingError(LakehouseError):
    """A batch does not account for every record it read."""


class BaseFileError(LakehouseError):
    """A base file cannot be read; nothing was loaded."""


class TableError(LakehouseError):
    """A table is missing or does not fit its declaration, or cannot be read or written."""


class NotConsumedError(TableError):
    """A derived table has to read what is there before the merged table is written in another form."""


class StoreUnreachableError(TableError):
    """The store of the tables does not answer; that says nothing of the tables."""


class StoreRefusedError(TableError):
    """The store of the tables lets nobody in with these permissions or credentials."""


class TableDamagedError(TableError):
    """A part of a table is missing or cannot be read."""


class QueryError(LakehouseError):
    """A query cannot be answered."""
