"""An engine that is none: a program that tells what it was given, and sleeps."""

import json
import os
import sys
import time
from pathlib import Path

from lakehouse.spark.engine import announce

NAMES = ("SPARK_LOCAL_IP", "SPARK_CONNECT_AUTHENTICATE_TOKEN")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    announce(folder, os.getpid())
    written = folder / "environment.new"
    written.touch(0o600)
    written.write_text(json.dumps({name: os.environ.get(name, "") for name in NAMES}))
    written.replace(folder / "environment")
    time.sleep(60)
