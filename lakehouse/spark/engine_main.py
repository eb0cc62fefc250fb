"""``python -m lakehouse.spark.engine_main FOLDER``: the process of the engine.

It is an ordinary session with Spark's Connect plugin, not Spark's own Connect server. That server isolates the
sessions of its clients: each compiles its own code and has its own Python workers, which stay after the session.
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
from lakehouse.settings.addresses import LOOPBACK
from lakehouse.settings.spark_conf import HIDDEN_TEXT, REDACTION, TEXT_REDACTION, join_patterns
from lakehouse.spark.engine import read_launch_conf, write_address
from lakehouse.spark.own_spark import start_spark

_LOCK = 4  # the descriptor that ``Child`` passes on
_CLIENT_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")  # with these, PySpark acts as a client
_UI_OFF = "off, since spark-env.sh sets SPARK_LOCAL_IP to an address other than 127.0.0.1"


def main() -> int:
    """Start the engine, write its address, and wait for its end; return the exit code of its Java."""
    folder = Path(sys.argv[1])
    for name in _CLIENT_VARIABLES:
        os.environ.pop(name, None)
    signal.signal(signal.SIGTERM, lambda *_: None)  # its Java gets the signal too, and this waits for it
    conf = read_launch_conf(folder)

    def adapt_to_java(jvm: Any) -> dict[str, str]:
        changes = fit_to_java(conf, jvm.System.getenv(), jvm.System.getProperties())
        # Spark compiles it late: an engine with an invalid pattern would start and refuse every session
        jvm.java.util.regex.Pattern.compile(changes.get(HIDDEN_TEXT, conf[HIDDEN_TEXT]))
        return changes

    try:
        spark = start_spark(conf, _LOCK, adapt_to_java)
    except SetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    write_address(folder, java.pid, describe_page(conf, spark.sparkContext.uiWebUrl))
    code: int = java.wait()
    return code if code >= 0 else 128 - code


def fit_to_java(conf: Mapping[str, str], environment: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that change because of the environment and the Spark defaults, which only Java knows.

    Text that Spark's file of defaults hides stays hidden. ``spark-env.sh`` has priority over our environment: if the
    Spark UI of an engine on this machine would not be on loopback, it is turned off.
    """
    default_text_pattern = defaults.get(HIDDEN_TEXT) or defaults.get(TEXT_REDACTION)
    default_patterns = {REDACTION: defaults.get(REDACTION), HIDDEN_TEXT: default_text_pattern}
    changes = {name: join_patterns(conf.get(name), pattern) for name, pattern in default_patterns.items() if pattern}
    if _is_local(conf) and environment.get("SPARK_LOCAL_IP") != LOOPBACK:
        changes["spark.ui.enabled"] = "false"
    return changes


def describe_page(conf: Mapping[str, str], url: str | None) -> str:
    """Return the URL of the Spark UI, on loopback if it is local; else why it is off, or "" if it is turned off."""
    if url is None:
        return _UI_OFF if conf["spark.ui.enabled"] == "true" else ""
    address = urlsplit(url)
    return address._replace(netloc=f"{LOOPBACK}:{address.port}").geturl() if _is_local(conf) else url


def _is_local(conf: Mapping[str, str]) -> bool:
    return conf["spark.master"].partition("[")[0] == "local"


if __name__ == "__main__":
    sys.exit(main())
