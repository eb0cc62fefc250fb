"""Decoding runs where this package is not: on Spark's workers, which get it by value."""

import subprocess
import sys

from pyspark import cloudpickle

from lakehouse.declaration import Column, records

ELSEWHERE = """
import pickle, sys
sys.modules["lakehouse"] = None  # an import of it fails
decode, fields = pickle.load(sys.stdin.buffer)
print(decode(b'{"n":12345678901.5,"at":"2023-01-01","few":1}', fields))
"""


def test_a_record_is_decoded_where_the_package_cannot_be_imported() -> None:
    columns = [
        Column("n", "DECIMAL(38,18)", "A number.", between=(0.5, 1e12)),
        Column("at", "DATE", "A day.", pattern="%Y-%m-%d"),
        Column("few", "INT", "A count."),
    ]
    cloudpickle.register_pickle_by_value(records)
    shipped = cloudpickle.dumps((records.decode, tuple(column.field for column in columns)))
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], input=shipped, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Decimal('12345678901.500000000000000000')" in done.stdout
