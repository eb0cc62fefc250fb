"""What Spark says of a table that it cannot read or write, as errors that name the table and the way on."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakehouse.ledger.table_failures import explained


@contextmanager
def spark_failures(uri: str = "") -> Iterator[None]:
    """Turn what Spark says of a table it cannot read or write into ``TableError``; other errors pass.

    ``ExecutorLostError`` where it lost what it held, ``EngineLostError`` where a Spark Connect server or our own Java
    ended.
    """
    from py4j.protocol import Py4JJavaError, Py4JNetworkError  # noqa: PLC0415 - what only looks at tables needs no Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        told = explained(error, uri)
        if told is None:
            raise
        raise told from error
    except Py4JNetworkError as error:
        from lakehouse.spark.own_spark import lost_java  # noqa: PLC0415

        raise lost_java() from error
