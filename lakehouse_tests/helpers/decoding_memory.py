"""How much memory the decoding of records takes, measured as Spark's workers run it: in a process of its own.

``peak_of`` starts one, lets it decode a record of the table, and tells by how much its resident memory grows at most
while it decodes all others and writes what becomes of them.
"""

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from lakehouse.declaration import StreamTable
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.ingest.decode import _decoder

MOST = 384 * 1000 * 1000  # bytes that a worker may take beyond those of an idle one
RECORDS = 8 * 1000 * 1000  # bytes of records for which that holds


def peak_of(folder: Path, table: StreamTable, records: list[bytes], schemas: Schemas = NO_SCHEMAS) -> int:
    """Bytes that a worker takes at most for these records, beyond those of an idle one."""
    asked, batch = folder / "asked", folder / "records.arrow"
    asked.write_bytes(pickle.dumps((table, schemas, records[0])))
    values = pa.record_batch([pa.array(records, pa.binary())], ["_value"])
    with pa.OSFile(str(batch), "wb") as file, pa.ipc.new_stream(file, values.schema) as stream:
        stream.write_batch(values)
    command = [sys.executable, "-m", __name__, str(asked), str(batch)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


def _measure(asked: Path, batch: Path) -> int:
    table, schemas, first = cloudpickle.loads(asked.read_bytes())
    decode = cloudpickle.loads(cloudpickle.dumps(_decoder(table, schemas)))
    _drain(decode(iter([pa.array([first[:0]], pa.binary())])))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak until now
    idle = _kilobytes("VmRSS")
    with batch.open("rb") as file:
        _drain(decode(values.column(0) for values in pa.ipc.open_stream(file)))
    return (_kilobytes("VmHWM") - idle) * 1024


def _drain(decoded: Any) -> None:
    """Write what was decoded as a worker does, batch by batch."""
    for verdicts in decoded:
        some = pa.record_batch([verdicts], ["_verdict"])
        with io.BytesIO() as file, pa.ipc.new_stream(file, some.schema) as stream:
            stream.write_batch(some)


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    print(_measure(Path(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201 - its answer
