"""``python -m lakehouse.local.engine_main FOLDER``: the engine itself, a Spark that others attach to.

It is a session like any other, with Spark's Connect plugin, and not the server that Spark brings: that one keeps the
sessions of its clients apart in such a way that each compiles its own code and has Python workers of its own, which
stay when it has ended.
"""

import os
import signal
import sys
from pathlib import Path

from pyspark import SparkContext

from lakehouse.errors import SetupError
from lakehouse.local.engine import announce, conf_of
from lakehouse.local.own_spark import start_spark

_LOCK = 4  # the descriptor that ``Child`` hands over
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")  # by which PySpark takes itself for a client


def main() -> int:
    """Start the engine, tell where it listens, and wait for its end; return the exit code of its Java."""
    folder = Path(sys.argv[1])
    for name in _ELSEWHERE:
        os.environ.pop(name, None)
    signal.signal(signal.SIGTERM, lambda *_: None)  # its Java is asked to end as well, and is waited for
    try:
        spark = start_spark(conf_of(folder), _LOCK)
    except SetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    announce(folder, java.pid, spark.sparkContext.uiWebUrl or "")
    code: int = java.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
