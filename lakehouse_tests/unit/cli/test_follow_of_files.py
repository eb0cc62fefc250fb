"""Follow mode of a table of files: it waits for a store that does not answer, and for nothing else."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.cli import following
from lakehouse.cli.following import _Follower
from lakehouse.declaration import Files
from lakehouse.errors import SourceError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse.sources.files import listing

pytestmark = pytest.mark.invariant("12.3")

SLOW_DOWN = "When listing objects under key 'in/' in bucket 'b': AWS Error SLOW_DOWN during ListObjectsV2 operation: no"


def follower(home: Path, folder: str, merge: Callable[[_Follower], None]) -> _Follower:
    """A follower of a folder without files, and what it does in place of a merge."""

    class Follower(_Follower):
        def _merge(self) -> None:
            merge(self)

    table = replace(temperatures, topic="", source=Files(folder, settle=timedelta(0)))
    context: Any = SimpleNamespace(table=table, settings=Settings(home=home, _env_file=None))
    return Follower(context, None)


def test_follow_ends_if_the_folder_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def merge(follower: _Follower) -> None:
        folder.rmdir()
        follower._plan()

    with pytest.raises(SourceError, match="No such file or directory"):
        follower(tmp_path, str(folder), merge).follow(30.0)


def test_follow_waits_for_a_store_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Double: what pyarrow says of a store that refuses for a while."""
    looks = list[str]()

    def list_nothing(folder: str) -> list[Any]:
        looks.append(folder)
        if len(looks) == 2:
            raise OSError(SLOW_DOWN)
        return []

    def look(follower: _Follower) -> None:
        follower._plan()

    monkeypatch.setattr(following, "_POLL", 0.01)
    monkeypatch.setattr(listing, "_list_store", list_nothing)
    follower(tmp_path, "s3://b/in", look).follow(0.02)
    notices = capfd.readouterr().err
    assert "SLOW_DOWN" in notices
    assert "Waiting until it answers.\nThe source answers again." in notices
