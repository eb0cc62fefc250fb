"""What it means that Spark cannot read the rows or changes of another table."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.errors import ReadLossError, SourceError
from lakehouse.ledger.positions import Plan
from lakehouse.sources.tables.look import versions_in
from lakehouse.storage.row_changes import ChangesGoneError, OtherColumnsError, change_failures
from lakehouse.storage.spark_failures import spark_failures


@contextmanager
def plan_failures(reader: str, uri: str, plan: Plan) -> Iterator[None]:
    """Raise ``ReadLossError`` if a version that ``reader`` reads is gone, ``SourceError`` if it has other columns.

    After a ``ReadLossError``, the next look sees a gap. Passes other errors on as ``spark_failures`` does.
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
