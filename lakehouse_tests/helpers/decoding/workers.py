"""Decode in a process without the package, as on a worker of Spark."""

import subprocess
import sys
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from lakehouse.declaration import StreamTable
from lakehouse.ingest.decode import _decoder

_WORKER = """
import pickle, sys
for name in ("lakehouse", "lakehouse_tests"):
    sys.modules[name] = None  # an import of it fails
decode, columns = pickle.load(sys.stdin.buffer)
print([verdicts.to_pylist() for verdicts in decode(iter([columns]))])
"""


def rows_of_worker(table: StreamTable, columns: pa.Array | tuple[pa.Array, ...]) -> list[Any]:
    """The verdicts of records in these columns, which this process and one without the package give."""
    decode = _decoder(table)
    (verdicts,) = decode(iter([columns]))
    pickled_function = cloudpickle.dumps((decode, columns))
    process = subprocess.run([sys.executable, "-c", _WORKER], input=pickled_function, capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout.decode().strip() == repr([verdicts.to_pylist()])
    return list(verdicts.to_pylist())
