"""A Spark started by this process, whose Java inherits a lock: the lock is free when that Java is dead."""

from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakehouse.errors import SetupError
from lakehouse.errors.causes import causes_of
from lakehouse.settings.spark_conf import DELTA

# what has to be known before Java runs; the rest, which may hold secrets, stands on no command line
_OF_JAVA = ("spark.driver.", "spark.jars", "spark.kubernetes.", "spark.master", "spark.submit.", "spark.yarn.")


def start_spark(conf: Mapping[str, str], lock: int) -> SparkSession:
    """Start a Spark with these settings, or return the one that this process has, with them.

    ``lock`` is a descriptor. Raises ``SetupError`` where Spark does not start, without the values of its settings.
    """
    builder: SparkSession.Builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        if SparkContext._gateway is None:  # the only way to hand the JVM a lock
            given = SparkConf(loadDefaults=False)
            given.setAll([(name, value) for name, value in conf.items() if name.startswith(_OF_JAVA)])
            gateway = launch_gateway(given, {"pass_fds": (lock,)})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway)
        return builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        said = causes_of(error)[-1].line or "it says nothing"
        raise SetupError(
            f"Spark does not start: {_without_values(said, conf)}",
            where=f"{conf['spark.master']}, driver {conf['spark.driver.memory']}",
            action="Check LAKEHOUSE_SPARK_MASTER, LAKEHOUSE_SPARK_DRIVER_MEMORY, LAKEHOUSE_SPARK_CONF and Java.",
        ) from None


def _without_values(text: str, conf: Mapping[str, str]) -> str:
    """Leave out of a text the values of settings, which may be secret, but for those that say what is wrong."""
    told = {*DELTA.values(), conf["spark.master"], "true", "false"}
    for value in sorted({*conf.values()} - told, key=len, reverse=True):
        if len(value) > 2:
            text = text.replace(value, "...")
    return text
