"""What it means that Spark cannot read the rows or changes of another table."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.errors import ReadLossError, SourceError
from lakehouse.errors.troubles import Trouble, has_trouble, is_version_gone
from lakehouse.ledger.positions import Plan
from lakehouse.sources.tables.look import versions_in
from lakehouse.storage.spark_failures import spark_failures


@contextmanager
def change_failures(reader: str, uri: str, plan: Plan) -> Iterator[None]:
    """Raise ``ReadLossError`` if a version that ``reader`` reads is gone, ``SourceError`` if it has other columns.

    After a ``ReadLossError``, the next look sees a gap. Passes other errors on as ``spark_failures`` does.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - commands without Spark never read a plan
    from pyspark.errors import PySparkException  # noqa: PLC0415

    with spark_failures(uri):
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            if has_trouble(error, Trouble.OTHER_COLUMNS):
                raise _columns_error(reader, uri, plan) from error
            if is_version_gone(error):
                raise _gone_error(reader, uri, plan) from error
            raise


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
