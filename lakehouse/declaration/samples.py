"""What fills a table apart from its source: base files, and sample records."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lakehouse.decoding.fields import Field


@runtime_checkable
class Rows(Protocol):
    """A reader of base rows from the files of a folder; ``OpenMeteoFiles`` is an example."""

    @property
    def default_folder(self) -> Path:
        """The folder that is read unless another one is given."""
        ...

    def read(self, spark: Any, folder: Path, fields: Sequence[Field]) -> Any:
        """Return a DataFrame of this session with one row per row of each file.

        Its columns are ``_file``, the name of the file (STRING), ``_place``, the number of the row in the file (BIGINT,
        from 0), and one column per field, with its ``name`` and ``type``; NULL if the file has no value.
        """
        ...


@runtime_checkable
class Samples(Protocol):
    """Deterministic sample records of a table, for the demo, the tests and benchmarks."""

    def stream(self) -> Iterator[bytes]:
        """Records, in the order in which they are sent; they follow the base, if there is one."""
        ...

    def update(self) -> Iterator[bytes]:
        """Records of which most change existing rows; none if there is nothing to show."""
        ...


@runtime_checkable
class BaseSamples(Samples, Protocol):
    """Sample records of a table with base rows, and base files for it."""

    def write_base(self, folder: Path) -> None:
        """Write base files into the folder; a second run writes the same bytes."""
        ...


@runtime_checkable
class AvroSamples(Samples, Protocol):
    """Sample records of a table in Avro, and the schemas with which they are written."""

    @property
    def schemas(self) -> Mapping[str, str]:
        """The text of the schema of the records of ``stream``, and of those of ``update``."""
        ...


@dataclass(frozen=True)
class SampleRecords:
    """Sample records as objects, each sent as JSON: first the ``new`` ones, then the ``changed`` ones."""

    new: Sequence[Mapping[str, Any]]
    changed: Sequence[Mapping[str, Any]] = ()

    def stream(self) -> Iterator[bytes]:
        """The new records, in their order."""
        return (json.dumps(record).encode() for record in self.new)

    def update(self) -> Iterator[bytes]:
        """The changed records, in their order."""
        return (json.dumps(record).encode() for record in self.changed)
