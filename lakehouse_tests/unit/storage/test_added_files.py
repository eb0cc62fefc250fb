"""Data files that workers wrote are named by a commit only if they are whole."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakehouse.errors import ConflictError
from lakehouse.storage.data_files import DataFile
from lakehouse.storage.delta_rs_writer import add_files
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, create_table, next_commit, read_stored, rows


@pytest.mark.invariant("1.17")
@pytest.mark.parametrize("damage", ["deleted", "cut off"])
def test_a_data_file_that_was_deleted_before_its_commit_is_never_named(tmp_path: Path, damage: str) -> None:
    """VACUUM deletes a file that no commit names, if the batch takes longer than the retention."""
    layout = create_table(tmp_path, PARIS)
    files = []
    for name in ("a.parquet", "b.parquet"):
        path = Path(layout.uri, name)
        pq.write_table(rows(OSLO), path)
        files.append(DataFile(name, path.stat().st_size, 1, 1, {"numRecords": 1}, 0, {}))
    if damage == "deleted":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConflictError, match="deleted or changed before its commit"):
        add_files(layout, files, next_commit(layout))
    assert read_stored(layout) == [PARIS]
