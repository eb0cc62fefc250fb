"""Where tables are, by their address."""

from pathlib import Path

import pytest

from lakehouse.settings.store import Store


@pytest.mark.parametrize(
    ("uri", "is_path", "folder"),
    [
        ("/data/t", True, Path("/data/t")),
        ("file:///data/a%20b", False, Path("/data/a b")),
        ("file:/data/t", False, Path("/data/t")),
        ("s3a://bucket/t", False, None),
        ("abfss://container@account.dfs.core.windows.net/t", False, None),
    ],
)
def test_a_path_a_uri_of_files_and_an_object_store_are_told_apart(uri: str, is_path: bool, folder: Path | None) -> None:
    store = Store(uri)
    assert (store.is_path, store.folder) == (is_path, folder)
    assert bool(store.options) == (folder is None)
