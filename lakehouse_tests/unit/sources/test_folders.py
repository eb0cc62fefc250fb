"""A folder compared with the log of its files: which can be read, which are new, and what is lost."""

import os
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from lakehouse.declaration import Files
from lakehouse.errors import SourceError
from lakehouse.ledger.planning import plan_batch
from lakehouse.ledger.positions import FILE_PLACES, Progress, find_gap
from lakehouse.settings import Settings
from lakehouse.sources.files.folder import FileLog, Folder, FolderState
from lakehouse.sources.files.listing import FileFacts, Listing, folder_of, list_files

FILES = Files("in", settle=timedelta(0), batch_bytes=25)
FACTS = {f"{number}.json": FileFacts(10, number, number) for number in range(4)}
LOG = FileLog("id", 1, 4, {path: (number, 10, number) for number, path in enumerate(FACTS)})


def state(facts: dict[str, FileFacts], first: int | None = 0, log: FileLog = LOG, **options: bool) -> FolderState:
    return Folder(FILES, log, Listing(facts)).state(first, is_new=options.pop("is_new", False), **options)


def files(positions: Mapping[int, int]) -> float:
    return positions[0] / FILE_PLACES


def without(*numbers: int) -> dict[str, FileFacts]:
    return {path: fact for path, fact in FACTS.items() if int(path[0]) not in numbers}


def next_files(facts: dict[str, FileFacts], first: int) -> tuple[float, float, str]:
    """The files that the next batch reads, from and to, and the loss before it."""
    folder_state = state(facts, first)
    progress = Progress(folder_state.source, {0: first * FILE_PLACES})
    plan, gap = plan_batch(folder_state, progress), find_gap(folder_state, progress)
    return plan.ranges[0].start / FILE_PLACES, plan.ranges[0].end / FILE_PLACES, "; ".join(gap.facts) if gap else ""


def test_a_batch_takes_whole_files_up_to_its_bytes() -> None:
    assert next_files(FACTS, 0) == (0, 2, "")
    assert next_files(FACTS, 2) == (2, 4, "")
    assert next_files(FACTS, 4) == (4, 4, "")


def test_a_removed_file_stops_the_files_after_it_and_is_a_loss_when_it_is_next() -> None:
    assert next_files(without(1), 0) == (0, 1, "")
    assert next_files(without(1), 1) == (2, 4, "1 file was removed before being merged: 1.json")
    assert next_files(without(1, 2, 3), 1) == (4, 4, "3 files were removed before being merged: 1.json, 2.json, 3.json")
    assert next_files(without(0, 1), 2) == (2, 4, ""), "they were merged before"


def test_a_file_that_is_put_back_is_read() -> None:
    assert next_files(without(1), 1)[2]
    assert next_files(FACTS, 1) == (1, 3, "")


def test_changed_contents_hold_back_the_files_after_them_until_they_have_a_number() -> None:
    facts = FACTS | {"1.json": FileFacts(11, 9, 9)}
    assert next_files(facts, 0) == (0, 1, "")
    assert next_files(facts, 1) == (1, 1, "")
    renumbered = FileLog("id", 2, 5, {**LOG.newest, "1.json": (4, 11, 9)})
    assert sorted(state(facts, 1, renumbered).sizes) == [0, 2, 3, 4]
    assert files(state(facts, 1, renumbered).end) == 5


@pytest.mark.invariant("9.11")
def test_new_contents_that_have_settled_are_read_as_a_new_file() -> None:
    """Otherwise a look ahead finds nothing to merge, and no run gives the file its number."""
    facts = FACTS | {"1.json": FileFacts(11, 9, 9)}
    assert files(state(facts, 1, looks_ahead=True).end) == 5


@pytest.mark.invariant("12.10")
def test_files_that_no_batch_reads_are_held_with_the_reason() -> None:
    settling_files, now = Files("in", settle=timedelta(seconds=30)), time.time_ns() // 1_000
    facts = FACTS | {"1.json": FileFacts(11, now, now), "new.json": FileFacts(1, now, now)}
    facts |= {"4.json": FileFacts(1, 5, 5)}
    folder = Folder(settling_files, LOG, Listing(facts, {"caf\udce9.json": "its name is not UTF-8"}))
    wait, grows = "waits for 1.json", "not unchanged for 30 seconds yet"
    assert [(part.name, part.reason, part.passes) for part in folder.state(1, is_new=False).held_parts] == [
        ("caf\udce9.json", "its name is not UTF-8", False),
        ("1.json", grows, True),
        ("new.json", grows, True),
        ("2.json", wait, True),
        ("3.json", wait, True),
        ("4.json", wait, True),
    ]
    assert [part.name for part in folder.state(4, is_new=False).held_parts] == ["caf\udce9.json", "1.json", "new.json"]


def test_a_suspect_of_the_same_size_and_time_gets_a_new_number() -> None:
    folder = Folder(FILES, LOG, Listing(FACTS), suspects=[1])
    assert list(folder.unnumbered) == ["1.json"]
    assert files(folder.state(1, is_new=False).end) == 1


def test_a_new_table_starts_at_the_first_file_that_ever_had_a_number() -> None:
    new_state = state(without(0), is_new=True)
    assert (new_state.starts, files(new_state.end)) == ({0: 0}, 0)


def test_looking_ahead_counts_new_files_and_changes_no_number() -> None:
    facts = FACTS | {"new.json": FileFacts(10, 50, 50)}
    assert files(state(facts, 4).end) == 4
    assert files(state(facts, 4, looks_ahead=True).end) == 5


def test_a_file_waits_until_it_has_settled(tmp_path: Path) -> None:
    settling_files = Files(str(tmp_path), settle=timedelta(seconds=30))
    now = time.time_ns() // 1_000
    facts = {"old": FileFacts(1, now - 31_000_000, now - 31_000_000), "copied": FileFacts(1, 5, now - 1_000_000)}
    facts |= {"future": FileFacts(1, now, now + 60_000_000)}
    assert list(Folder(settling_files, FileLog(), Listing(facts)).unnumbered) == ["old"]


def test_a_listing_has_the_files_that_match_in_all_folders(tmp_path: Path) -> None:
    for name in ("a.json", "b/c.json", "b/d.csv", ".hidden.json", "_unfinished/e.json", "b/_f.json"):
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"12345")
    settings = Settings(home=tmp_path, files=str(tmp_path), _env_file=None)
    folder = folder_of(settings, Files("in", names="*.json"))
    assert {path: facts.size for path, facts in list_files(folder, Files("in", names="*.json")).facts.items()} == {
        "a.json": 5,
        "b/c.json": 5,
    }
    os.mkfifo(tmp_path / "in" / "pipe.json")
    (tmp_path / "in" / "circle").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "itself.json").symlink_to("itself.json")
    Path(os.fsdecode(bytes(tmp_path / "in") + b"/caf\xe9.json")).write_bytes(b"1")
    assert sorted(list_files(folder, Files("in", names="*.json")).facts) == ["a.json", "b/c.json"]
    with pytest.raises(SourceError, match="cannot be read"):
        list_files(folder_of(settings, Files("missing")), Files("missing"))


def test_a_folder_that_many_links_lead_to_is_listed_once_by_its_own_path(tmp_path: Path) -> None:
    names = [f"folder{number}" for number in range(7)]
    for name in names:
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "a.json").touch()
    for name in names:
        for other_name in {*names} - {name}:
            (tmp_path / "in" / name / f"a{other_name}").symlink_to(tmp_path / "in" / other_name)
    assert sorted(list_files(str(tmp_path / "in"), FILES).facts) == [f"{name}/a.json" for name in names]


def test_a_folder_outside_is_listed_once_by_the_first_of_the_links_to_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "within").mkdir(parents=True)
    (outside / "within" / "a.json").touch()
    (outside / "back").symlink_to(outside)
    for path in ("b/z", "a/deep/z", "c"):
        (tmp_path / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / path).symlink_to(outside)
    (tmp_path / "in" / "d").symlink_to(outside / "within")
    assert [*list_files(str(tmp_path / "in"), FILES).facts] == ["c/within/a.json"]


def test_folders_may_be_nested_deeply(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(400):
        folder /= "d"
        folder.mkdir()
    (folder / "deep.json").write_bytes(b"12345")
    files = Files(str(tmp_path), names="*.json")
    assert [facts.size for facts in list_files(str(tmp_path), files).facts.values()] == [5]
