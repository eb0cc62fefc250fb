"""A fake engine: a program that writes the environment that it received, and sleeps."""

import json
import os
import sys
import time
from pathlib import Path

from lakehouse.spark.engine import write_address

NAMES = ("SPARK_LOCAL_IP", "SPARK_CONNECT_AUTHENTICATE_TOKEN")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_address(folder, os.getpid())
    file = folder / "environment.new"
    file.touch(0o600)
    file.write_text(json.dumps({name: os.environ.get(name, "") for name in NAMES}))
    file.replace(folder / "environment")
    time.sleep(60)
