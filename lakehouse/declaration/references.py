"""``Reference``: a small table that describes what the records refer to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats import Format, Json


@dataclass(frozen=True)
class Reference:
    """A small table that describes what the records refer to, loaded as a whole from a file.

    Each line of the file is a row, in the ``format``. ``header`` is the first line of the file, which is not a row.
    """

    name: str
    file: Path
    columns: Sequence[Column]
    key: Sequence[str]
    doc: str
    format: Format = field(default_factory=Json)
    header: str = ""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The rules for the fields of a line."""
        return tuple(column.field._replace(reads_text=self.format.is_text) for column in self.columns)
