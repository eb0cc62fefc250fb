"""A rebuild puts new tables in the place of the stored ones; killed at any move, a second run completes it."""

from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.operations.rebuild_tables import Places, switch
from lakehouse.settings import Settings

OLD = {"temperatures": "old", "temperatures_rejected": "old", "temperatures_changes": "old", "locations": "old"}
NEW = {"temperatures": "new", "temperatures_rejected": "new", "temperatures_base": "new"}
# the feed was not rebuilt, so it goes; a reference is loaded, not built
SWITCHED = {**NEW, "locations": "old"}


class KilledError(Exception):
    """The process dies."""


def write(folder: Path, contents: dict[str, str]) -> None:
    for name, content in contents.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "rows").write_text(content)


def read(folder: Path) -> dict[str, str]:
    return {file.parent.name: file.read_text() for file in folder.glob("[!.]*/rows")}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path, _env_file=None)
    write(Path(settings.tables_root), OLD)
    return settings


@pytest.fixture
def places(settings: Settings) -> Places:
    places = Places.of(settings, temperatures)
    write(places.rebuilt, NEW)
    return places


def test_the_rebuilt_tables_take_the_place_of_the_stored_ones(settings: Settings, places: Places) -> None:
    switch(settings, temperatures, places)
    assert read(places.tables) == SWITCHED
    assert read(places.former) == {name: text for name, text in OLD.items() if name != "locations"}
    assert not places.rebuilt.exists()


def test_a_switch_back_brings_the_former_tables_back(settings: Settings, places: Places) -> None:
    switch(settings, temperatures, places)
    switch(settings, temperatures, places.reversed)
    assert read(places.tables) == OLD


@pytest.mark.parametrize("moves", range(7))
def test_a_switch_that_is_killed_is_completed_by_a_second_run(
    settings: Settings, places: Places, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, renamed = Path.rename, list[Path]()

    def rename_or_die(path: Path, target: Path) -> Path:
        if len(renamed) == moves:
            raise KilledError
        renamed.append(path)
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename_or_die)
        with pytest.raises(KilledError):
            switch(settings, temperatures, places)
    assert places.interrupted == (places if moves > 0 else None)
    switch(settings, temperatures, places)
    assert read(places.tables) == SWITCHED


def test_tables_in_an_object_store_are_not_rebuilt(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, tables="s3a://bucket/tables", _env_file=None)
    with pytest.raises(LakehouseError, match="is in an object store"):
        Places.of(settings, temperatures)
