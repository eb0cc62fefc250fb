"""Translates the errors of Spark for a table that it cannot read or write: ours name the table and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.ledger.table_failures import explain_error


@contextmanager
def spark_failures(uri: str = "") -> Iterator[None]:
    """Raise ``TableError`` instead of Spark's error about a table that it cannot read or write; pass other errors on.

    Raises ``ExecutorLostError`` if Spark lost cached data, ``EngineLostError`` if a Spark Connect server or our own
    Java process ended.
    """
    from py4j.protocol import Py4JJavaError, Py4JNetworkError  # noqa: PLC0415 - not every reader of tables has Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        table_error = explain_error(error, uri)
        if table_error is None:
            raise
        raise table_error from error
    except Py4JNetworkError as error:
        from lakehouse.spark.own_spark import lost_java_error  # noqa: PLC0415

        raise lost_java_error() from error
