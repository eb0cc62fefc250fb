"""A Spark of another program, which appends a row to a table in S3 with Delta's own log store. Argument: the table."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse.spark.sessions import spark_conf

_LOG_STORES = "spark.delta.logStore."


def main() -> None:
    """Append a row without our class of the log store."""
    table = sys.argv[1]
    with TemporaryDirectory() as folder:
        builder = SparkSession.builder
        for name, value in spark_conf(Settings(home=Path(folder), tables=table.rpartition("/")[0])).items():
            if not name.startswith(_LOG_STORES):
                builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sql(f"INSERT INTO delta.`{table}` VALUES ('foreign')")
        spark.stop()


if __name__ == "__main__":
    main()
