"""The kinds of stores, by path or URI."""

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
def test_paths_file_uris_and_object_stores_are_distinguished(uri: str, is_path: bool, folder: Path | None) -> None:
    store = Store(uri)
    assert (store.is_path, store.folder) == (is_path, folder)
    assert bool(store.options) == (folder is None)
