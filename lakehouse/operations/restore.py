"""Restores a table to an earlier version. The ledger recognises the commit as it does any RESTORE."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lakehouse.errors import TableError
from lakehouse.ledger.commit_infos import committed_at, progress_by_stream
from lakehouse.ledger.ledger import Ledger, ledger_as_of, read_ledger
from lakehouse.ledger.log import open_version, read_commit
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.versions import count_rows
from lakehouse.settings.store import Store
from lakehouse.storage.delta_rs_writer import restore_version, spark_advice
from lakehouse.storage.layout import Layout


@dataclass(frozen=True)
class PlannedRestore:
    """A restore for a person to confirm.

    ``newest`` is the version of the table now. ``committed_at`` is the time of the earlier version, UTC; ``None`` if
    its commit has expired. ``rows`` are those now and then. ``positions`` has, for each partition that goes back, the
    next position now and then; ``None`` is the earliest of the topic. A partition is a number, after the name of its
    topic if the table reads several. A table without progress has no positions.
    """

    layout: Layout
    version: int
    newest: int
    committed_at: datetime | None
    rows: tuple[int, int]
    positions: Mapping[int | str, tuple[int | None, int | None]]

    @property
    def undoes_start(self) -> bool:
        """Whether the earlier version has no progress, so that the table begins in its topic again."""
        return bool(self.positions) and all(then is None for _, then in self.positions.values())

    def run(self) -> None:
        """Commit the restore; raises what ``restore_version`` raises. A second run is refused, and changes nothing."""
        restore_version(self.layout, self.version, self.newest)


def plan_restore(layout: Layout, version: int) -> PlannedRestore:
    """Read what a restore would undo, without a JVM; writes nothing.

    Raises ``TableError`` if the table does not exist, if lakehouse did not write it, if it is not at a path and so has
    no lock, or if the version is not an earlier one that the log still shows. Raises what ``read_ledger`` raises.
    """
    uri, name = layout.uri, layout.name
    if not Store(uri).is_path:
        raise TableError(f"{name} is not at a path, so nothing locks it", where=uri, action=spark_advice(uri, version))
    ledger = read_ledger(uri, name)
    if not ledger.entries and not ledger.transaction:
        problem = "has no commit of lakehouse" if ledger.exists else "does not exist"
        raise TableError(f"Table {name} {problem}", where=uri, action="Nothing was changed.")
    if version >= ledger.version:
        message = f"Version {version} of {name} is not an earlier version: the newest is {ledger.version}"
        raise TableError(message, where=uri, action="Choose a smaller number.")
    table = open_version(uri, version)
    with log_failures(uri):
        rows = count_rows(uri), int(table.count())
    former_ledger = ledger_as_of(table, uri, name)
    if ledger.progress and former_ledger.transaction and not former_ledger.progress:
        message = f"The log no longer shows the progress of version {version} of {name}"
        raise TableError(message, where=uri, action="Choose a newer version.")
    has_several = ledger.newest is not None and bool(ledger.newest.commit.other_sources)
    now, then = _positions(ledger, has_several), _positions(former_ledger, has_several)
    partitions = [p for p in dict.fromkeys([*now, *then]) if now.get(p) != then.get(p)]
    info = read_commit(uri, version)
    positions = {p: (now.get(p), then.get(p)) for p in partitions}
    return PlannedRestore(layout, version, ledger.version, committed_at(info) if info else None, rows, positions)


def _positions(ledger: Ledger, has_several: bool) -> Mapping[int | str, int]:
    named_positions = [
        (name, partition, position)
        for name, part in progress_by_stream(ledger.newest.commit if ledger.newest else None).items()
        for partition, position in (part.progress or {}).items()
    ]
    return {f"{name} {p}" if has_several else p: position for name, p, position in sorted(named_positions)}
