"""``python -m lakehouse.spark.engine_main FOLDER``: the engine itself, a Spark that others attach to.

It is a session like any other, with Spark's Connect plugin, and not the server that Spark brings: that one keeps the
sessions of its clients apart in such a way that each compiles its own code and has Python workers of its own, which
stay when it has ended.
"""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark import SparkContext

from lakehouse.errors import SetupError
from lakehouse.settings.broker_address import LOOPBACK
from lakehouse.settings.spark_conf import HIDDEN_TEXT, REDACTION, TEXT_REDACTION, joined
from lakehouse.spark.engine import announce, conf_of
from lakehouse.spark.own_spark import start_spark

_LOCK = 4  # the descriptor that ``Child`` hands over
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")  # by which PySpark takes itself for a client
_EXPOSED = "left out, since spark-env.sh sets SPARK_LOCAL_IP to another address than 127.0.0.1"


def main() -> int:
    """Start the engine, tell where it listens, and wait for its end; return the exit code of its Java."""
    folder = Path(sys.argv[1])
    for name in _ELSEWHERE:
        os.environ.pop(name, None)
    signal.signal(signal.SIGTERM, lambda *_: None)  # its Java is asked to end as well, and is waited for
    conf = conf_of(folder)

    def fit(jvm: Any) -> dict[str, str]:
        fitted = fit_to_java(conf, jvm.System.getenv(), jvm.System.getProperties())
        # Spark itself reads it late: an engine with a wrong pattern would start, and refuse every session
        jvm.java.util.regex.Pattern.compile(fitted.get(HIDDEN_TEXT, conf[HIDDEN_TEXT]))
        return fitted

    try:
        spark = start_spark(conf, _LOCK, fit)
    except SetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    announce(folder, java.pid, describe_page(conf, spark.sparkContext.uiWebUrl))
    code: int = java.wait()
    return code if code >= 0 else 128 - code


def fit_to_java(conf: Mapping[str, str], environment: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """What of the settings of an engine changes by what its Java alone knows: its environment and Spark's defaults.

    What Spark's file of defaults hides stays hidden. ``spark-env.sh`` goes before our environment: where the page of an
    engine on this machine would not be on loopback, there is none.
    """
    own_text = defaults.get(HIDDEN_TEXT) or defaults.get(TEXT_REDACTION)
    hides = {REDACTION: defaults.get(REDACTION), HIDDEN_TEXT: own_text}
    fitted = {name: joined(conf.get(name), pattern) for name, pattern in hides.items() if pattern}
    if _is_local(conf) and environment.get("SPARK_LOCAL_IP") != LOOPBACK:
        fitted["spark.ui.enabled"] = "false"
    return fitted


def describe_page(conf: Mapping[str, str], url: str | None) -> str:
    """Where the page is, by loopback where it is there; else why it is not, and nothing where none was wanted."""
    if url is None:
        return _EXPOSED if conf["spark.ui.enabled"] == "true" else ""
    where = urlsplit(url)
    return where._replace(netloc=f"{LOOPBACK}:{where.port}").geturl() if _is_local(conf) else url


def _is_local(conf: Mapping[str, str]) -> bool:
    return conf["spark.master"].partition("[")[0] == "local"


if __name__ == "__main__":
    sys.exit(main())
