"""Which versions of a table can be read together, which no longer, and the errors about them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileType

from lakehouse.errors import ReadLossError, SourceError
from lakehouse.ledger.log import open_table, open_version
from lakehouse.ledger.positions import VERSION_PLACES, Plan, Positions, Range, SourceId, SourceState
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.versions import active_files
from lakehouse.settings.store import Store
from lakehouse.storage.row_changes import ChangesGoneError, OtherColumnsError, VersionChanges, change_failures, place_of
from lakehouse.storage.spark_failures import spark_failures

KIND = "table"
ROWS, CHANGES = 0, 1
"""The partition with the rows as of a version, and the one with the changes since."""
KIND_FIELD = "_change_type"
"""The field of a record that says what happened to its row."""
MAX_VERSIONS = 1_000
"""Most versions of one batch."""
RECORD_FIELDS = frozenset({"source", "partition", "position", "sequence", "time"})
"""The fields of the record of a row that lakehouse wrote, which order it."""
ADDED = VERSION_PLACES // 2
"""The first place of rows that a version adds; those that it removes have places before."""
_LAST_PLACE = VERSION_PLACES - 1
_CAUSE = "commits or change data were deleted, or change data was off"
_ROW_COUNTS = (
    *("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted", "numOutputRows"),
    *("numUpdatedRows", "numDeletedRows"),
    *("num_target_rows_inserted", "num_target_rows_updated", "num_target_rows_deleted", "num_added_rows"),
    *("num_updated_rows", "num_deleted_rows"),
)
"""The metrics of Spark's Delta, and those of deltalake."""
CHANGE_DATA = "delta.enableChangeDataFeed"
"""The property of a table that keeps change data."""
_VECTORS = "deletionVectors"  # the feature of tables that may have them
_IS_GONE = "File not found"  # in the error of deltalake for a deletion vector


@dataclass(frozen=True)
class TableState(SourceState):
    """The state of a table as a source: ``rows`` has the number of changed rows of each version, if it is known."""

    rows: Mapping[int, int] = field(default_factory=dict)

    def divide(self, starts: Positions, lags: Positions, limit: int | None, turn: int = 0) -> dict[int, int]:  # noqa: ARG002
        """Return the positions of the next versions: with ``limit`` changed rows together, and at least one version.

        The rows as of a version are read at once.
        """
        shares, start = dict(lags), starts.get(CHANGES, 0)
        total = 0
        for version in range(start // VERSION_PLACES, (start + lags.get(CHANGES, 0)) // VERSION_PLACES):
            total += self.rows.get(version, 0)
            is_full = limit is not None and total > limit
            if (is_full or version - start // VERSION_PLACES >= MAX_VERSIONS) and version * VERSION_PLACES > start:
                shares[CHANGES] = version * VERSION_PLACES - start
                break
        return shares

    def describe_lost(self, part: Range) -> str:
        """Return the sentence that versions can no longer be read, or that rows are to be read again."""
        if part.partition == ROWS:
            return f"After the loss, all rows of {self.stream} are read as of version {part.end // VERSION_PLACES}"
        versions = versions_in(part)
        count = f"Version {versions[0]}" if len(versions) == 1 else f"Versions {versions[0]} to {versions[-1]}"
        return f"{count} of {self.stream} can no longer be read, and were not: {_CAUSE}"


def versions_in(part: Range) -> range:
    """Return the versions of which a range has a part."""
    return range(part.start // VERSION_PLACES, -(-part.end // VERSION_PLACES))


def split_at(part: Range, versions: Collection[int]) -> list[Range]:
    """Return the pieces of a range of versions: one begins at each of these versions."""
    inner_starts = [v * VERSION_PLACES for v in versions_in(part)[1:] if v in versions]
    starts = [part.start, *inner_starts]
    return [Range(part.partition, start, end) for start, end in zip(starts, [*inner_starts, part.end], strict=True)]


def first_after(version: int, versions: Collection[int]) -> int:
    """Return the first version from this one on that is not among these."""
    while version in versions:
        version += 1
    return version


def starts_of(newest: int) -> dict[int, int]:
    """Return where a new table begins: with the rows of the newest version, and the changes after it."""
    return {ROWS: newest * VERSION_PLACES, CHANGES: (newest + 1) * VERSION_PLACES}


def ends_of(first: int, newest: int) -> dict[int, int]:
    """Return the ends of both partitions, for a table that began with the rows of the version ``first``."""
    return {ROWS: first * VERSION_PLACES + _LAST_PLACE, CHANGES: (newest + 1) * VERSION_PLACES}


def source_id(table_id: str) -> SourceId:
    """Return the identity of a table as a source: the id that Delta gave it."""
    return SourceId(KIND, table_id)


def changed_rows(info: Mapping[str, Any]) -> int:
    """Return the number of rows that a commit changed, as far as its metrics say."""
    metrics = info.get("operationMetrics") or {}
    return sum(int(metrics[name]) for name in _ROW_COUNTS if str(metrics.get(name, "")).isdecimal())


def lost_versions(uri: str, versions: range, changes: Sequence[VersionChanges]) -> set[int]:
    """Return those of some versions whose commit or change data is gone, or never was.

    ``changes`` are those of the versions that are in the log.
    """
    paths = {version.number: {path for file in version.files for path in file.paths} for version in changes}
    properties = {version.number: version.properties for version in changes if version.properties is not None}
    with log_failures(uri):
        missing_paths = _missing(uri, set().union(*paths.values()))
    gone_versions = {v for v in versions if v not in paths or not paths[v].isdisjoint(missing_paths)}
    switches = {version: _has_change_data(configuration) for version, configuration in properties.items()}
    return gone_versions | _versions_without_change_data(uri, sorted(paths), switches)


def _versions_without_change_data(uri: str, versions: Sequence[int], switches: Mapping[int, bool]) -> set[int]:
    """Return those of consecutive versions in which the table did not keep change data.

    ``switches`` say whether it does from some versions on; most logs have none.
    """
    if not versions:
        return set()
    known_version = min(switches) - 1 if switches else versions[-1]
    is_kept = known_version < versions[0] or _keeps_change_data(uri, known_version)
    unkept_versions = set[int]()
    for version in versions:
        is_kept = switches.get(version, is_kept)
        unkept_versions |= set() if is_kept else {version}
    return unkept_versions


def _keeps_change_data(uri: str, version: int) -> bool:
    table = open_table(uri)
    if table is None or table.version() != version:
        table = open_version(uri, version)
    with log_failures(uri):
        return _has_change_data(table.metadata().configuration)


def _has_change_data(properties: Mapping[str, str]) -> bool:
    return properties.get(CHANGE_DATA) == "true"


def has_rows(uri: str, version: int) -> bool:
    """Whether every file with the rows as of a version still exists, and every file with a deletion vector of them.

    Raises ``TableError`` if the table has features of Delta that a reader without Spark does not know.
    """
    table = open_version(uri, version)
    paths = active_files(table, uri)["path"].to_pylist()
    with log_failures(uri):
        return not _missing(uri, list(map(place_of, paths))) and _has_vectors(table)


def _has_vectors(table: DeltaTable) -> bool:
    """Whether every deletion vector can be read. A checkpoint may hold their paths, which only deltalake reads."""
    if _VECTORS not in (table.protocol().reader_features or ()):
        return True
    try:
        return all(batch is not None for batch in table.deletion_vectors())
    except DeltaError as error:
        if _IS_GONE in str(error):
            return False
        raise


def _missing(uri: str, paths: Collection[str]) -> set[str]:
    """Return those of the files of a table that do not exist; of files in another store, none."""
    store, own_paths = Store(uri), [path for path in paths if not Store(path).is_address]
    if store.folder:
        return {path for path in own_paths if not Path(uri, path).exists()}
    infos = DeltaStorageHandler(store.uri, store.options).get_file_info(own_paths)
    return {info.path for info in infos if info.type == FileType.NotFound}


@contextmanager
def plan_failures(reader: str, uri: str, plan: Plan) -> Iterator[None]:
    """Raise ``ReadLossError`` if a version that ``reader`` reads is gone, ``SourceError`` if it has other columns.

    After a ``ReadLossError``, the next state has a gap. Passes other errors on as ``spark_failures`` does.
    """
    with spark_failures(uri):
        try:
            with change_failures():
                yield
        except OtherColumnsError as error:
            raise _columns_error(reader, uri, plan) from error
        except ChangesGoneError as error:
            raise _gone_error(reader, uri, plan) from error


def _columns_error(reader: str, uri: str, plan: Plan) -> SourceError:
    return SourceError(
        f"{_versions_of(plan)} of the table that {reader} reads: the columns were others than they are now, and the"
        " table has no mapping of columns, so Delta cannot read the changes",
        where=uri,
        action="Nothing was merged. Declare a table with another name, which begins with the rows as they are. The rows"
        " that were merged stay.",
    )


def _gone_error(reader: str, uri: str, plan: Plan) -> ReadLossError:
    return ReadLossError(
        f"{_versions_of(plan)} of the table that {reader} reads can no longer be read: change data was off or"
        " deleted, as VACUUM does",
        where=uri,
        action="Nothing was merged. What is not merged yet is a gap, which the next merge names: lakehouse merge"
        f" {reader}. What was merged cannot be replayed; its rows stay.",
    )


def _versions_of(plan: Plan) -> str:
    versions = [version for part in plan.ranges if part.span for version in versions_in(part)]
    return f"Version {versions[0]}" if len(versions) == 1 else f"Versions {min(versions)} to {max(versions)}"
