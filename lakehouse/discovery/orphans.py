"""Views and exports of what only a file can declare that fails."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from lakehouse.declaration import Export, View
from lakehouse.errors import DeclarationError, LakehouseError

_Reader = TypeVar("_Reader", View, Export)


def without_orphans(
    readers: Sequence[_Reader], table_names: Iterable[str], report: Callable[[LakehouseError], None]
) -> list[_Reader]:
    """Return the views or exports that read only these tables, and views that do; ``report`` gets why others do not."""
    known_readers: list[_Reader] = list(readers)
    count = -1
    while len(known_readers) != count:
        count = len(known_readers)
        known_names = {*table_names, *(reader.name for reader in known_readers if isinstance(reader, View))}
        known_readers = [reader for reader in known_readers if known_names.issuperset(_read_names(reader))]
    for reader in readers:
        if reader not in known_readers:
            report(
                DeclarationError(
                    f"{type(reader).__name__} {reader.name!r} is left out: a file that fails may declare what it reads,"
                    f" {' or '.join(_read_names(reader))}",
                    where=reader.file,
                    action="Correct the other file.",
                )
            )
    return known_readers


def _read_names(reader: View | Export) -> Sequence[str]:
    return reader.reads if isinstance(reader, View) else (reader.of,)
