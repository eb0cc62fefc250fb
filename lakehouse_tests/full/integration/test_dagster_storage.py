"""Dagster's storage, which several processes may create at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakehouse.local.dagster_home import migrate_dagster_storage
from lakehouse.settings import Settings


def test_processes_that_start_at_once_in_a_fresh_folder_all_find_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also processes of several homes that share the folder."""
    folder = tmp_path / "shared"
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    homes = [Settings(home=tmp_path / str(number), _env_file=None) for number in range(4)]
    with ThreadPoolExecutor(len(homes)) as threads:
        list(threads.map(migrate_dagster_storage, homes))
    assert (folder / "history" / "runs.db").stat().st_size > 0
    migrate_dagster_storage(homes[0])
