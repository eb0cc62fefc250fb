"""A home in which another program keeps files of the same names: lakehouse does not touch them."""

from collections.abc import Callable
from pathlib import Path

import pytest

import lakehouse.spark.sessions
from lakehouse.cli import table_session
from lakehouse.cli.services import Service, _start
from lakehouse.errors import SettingsError
from lakehouse.local.servers import EmbeddedBroker, EmbeddedRegistry
from lakehouse.settings import Settings
from lakehouse.spark.engine import share_lock

LOGS = ("spark.log", "webserver.log", "daemon.log", "runs.log", "dagster-storage.log")
STARTS: dict[str, Callable[[Settings], object]] = {
    "engine": share_lock,
    "broker": lambda settings: EmbeddedBroker(settings).start_or_join(),
    "registry": lambda settings: EmbeddedRegistry(settings).start_or_join(),
}


def write_files(folder: Path, *names: str) -> dict[Path, str]:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("theirs")
    return {folder / name: "theirs" for name in names}


def test_a_log_of_another_program_is_not_changed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign_files = write_files(settings.home_folder / "logs", *LOGS)
    monkeypatch.setattr(lakehouse.spark.sessions, "build_session", lambda _: None)
    monkeypatch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
    with table_session.spark(settings):
        child, _ = _start(settings, Service.webserver, ["this"])
    child.stop()
    assert {file: file.read_text() for file in foreign_files} == foreign_files
    assert {file.name for file in (settings.home_folder / "logs" / "lakehouse").iterdir()} == {
        "spark.log",
        "webserver.log",
    }


@pytest.mark.parametrize("part", STARTS)
def test_a_folder_with_files_but_without_a_lock_is_refused_and_not_changed(settings: Settings, part: str) -> None:
    foreign_files = write_files(settings.home_folder / part, "log", "address", "server.properties")
    with pytest.raises(SettingsError, match=f"{part}/address, which lakehouse did not create.*LAKEHOUSE_HOME"):
        STARTS[part](settings)
    assert {file: file.read_text() for file in (settings.home_folder / part).iterdir()} == foreign_files


def test_an_empty_folder_or_one_with_a_lock_is_accepted(settings: Settings) -> None:
    (settings.home_folder / "engine" / "lost+found").mkdir(parents=True)
    folder = settings.claim_folder("engine")
    for name in ("lock", "log"):
        (folder / name).touch()
        assert settings.claim_folder("engine") == folder
