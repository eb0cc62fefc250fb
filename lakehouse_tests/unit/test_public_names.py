"""The names that your own project imports from ``lakehouse``."""

import subprocess
import sys

import pytest

import lakehouse


@pytest.mark.parametrize("name", lakehouse.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(lakehouse, name).__name__ == name


def test_dir_lists_the_public_names() -> None:
    assert {*lakehouse.__all__} <= {*dir(lakehouse)}


def test_an_unknown_name_raises_an_attribute_error() -> None:
    misspelled = "Colum"
    with pytest.raises(AttributeError, match=f"module 'lakehouse' has no attribute '{misspelled}'"):
        _ = getattr(lakehouse, misspelled)


def test_importing_the_package_and_declaring_a_table_imports_neither_spark_nor_dagster() -> None:
    program = """
import sys
import lakehouse
assert not [name for name in sys.modules if name.startswith("lakehouse.")]
from lakehouse import Column, StreamTable
StreamTable("orders", "orders", "", [Column("id", "INT", "", required=True)], ["id"])
assert not {"pyspark", "dagster", "deltalake", "duckdb", "aiokafka", "fastavro"} & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", program], check=True)
