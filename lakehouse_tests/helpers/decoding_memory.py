"""Measure the memory of decoding records, in a separate process, as the workers of Spark run it.

``peak_of`` starts the process, which decodes one record of the table first. It returns the maximum growth of the
resident memory while the process decodes all records and writes the results.
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

MAX_ADDED_BYTES = 384 * 1000 * 1000  # bytes that a worker may use in addition to those of an idle one
RECORDS = 8 * 1000 * 1000  # bytes of records to which the limit applies


def peak_of(folder: Path, table: StreamTable, records: list[bytes], schemas: Schemas = NO_SCHEMAS) -> int:
    """Return the maximum bytes that a worker uses for these records, in addition to those of an idle one."""
    input_file, batch_file = folder / "input", folder / "records.arrow"
    input_file.write_bytes(pickle.dumps((table, schemas, records[0])))
    values = pa.record_batch([pa.array(records, pa.binary())], ["_value"])
    with pa.OSFile(str(batch_file), "wb") as file, pa.ipc.new_stream(file, values.schema) as stream:
        stream.write_batch(values)
    command = [sys.executable, "-m", __name__, str(input_file), str(batch_file)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert process.returncode == 0, process.stderr
    return int(process.stdout)


def _measure(input_file: Path, batch_file: Path) -> int:
    table, schemas, first_record = cloudpickle.loads(input_file.read_bytes())
    decode = cloudpickle.loads(cloudpickle.dumps(_decoder(table, schemas)))
    _write(decode(iter([pa.array([first_record[:0]], pa.binary())])))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # reset the peak
    idle_kilobytes = _kilobytes("VmRSS")
    with batch_file.open("rb") as file:
        _write(decode(values.column(0) for values in pa.ipc.open_stream(file)))
    return (_kilobytes("VmHWM") - idle_kilobytes) * 1024


def _write(verdict_batches: Any) -> None:
    """Write the decoded records as a worker does, batch by batch."""
    for verdicts in verdict_batches:
        batch = pa.record_batch([verdicts], ["_verdict"])
        with io.BytesIO() as file, pa.ipc.new_stream(file, batch.schema) as stream:
            stream.write_batch(batch)


def _kilobytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    print(_measure(Path(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201 - the result of the process
