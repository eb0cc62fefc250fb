"""A Spark that appends rows to a table in a store, one commit each: one of lakehouse, or of another program.

Arguments: the table, with the columns ``writer`` and ``row``; the writer; the number of rows; and ``ours``, or ``own``
for Delta's own log store. It prints the numbers of the rows whose statement ended without an error, as JSON.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse.spark.sessions import spark_conf

_LOG_STORES = "spark.delta.logStore."


def _append(spark: SparkSession, table: str, writer: str, row: int) -> bool:
    try:
        spark.sql(f"INSERT INTO delta.`{table}` VALUES ('{writer}', {row})")
    except Exception as error:
        print(error, file=sys.stderr)  # noqa: T201
        return False
    return True


def main() -> None:
    """Append the rows."""
    table, writer, count, log_store = sys.argv[1:]
    with TemporaryDirectory() as folder:
        builder = SparkSession.builder
        for name, value in spark_conf(Settings(home=Path(folder), tables=table.rpartition("/")[0])).items():
            if log_store == "ours" or not name.startswith(_LOG_STORES):
                builder = builder.config(name, value)
        spark = builder.getOrCreate()
        appended_rows = [row for row in range(int(count)) if _append(spark, table, writer, row)]
        print(json.dumps(appended_rows))  # noqa: T201
        spark.stop()


if __name__ == "__main__":
    main()
