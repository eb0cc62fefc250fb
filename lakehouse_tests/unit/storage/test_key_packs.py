"""Packs of the hashes of keys: what a damaged or foreign one is worth, and how many there are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lakehouse.errors import TableError
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.versions import active_files
from lakehouse.storage import key_hashes, key_packs
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.key_hashes import KEYS_FOLDER, KeyHashes
from lakehouse.storage.key_packs import SUFFIX, Files, Hashes, Key, open_pack, write_pack
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, create_table, next_commit, rows

NO_SPARK: Any = SimpleNamespace(version="4.2.0")
KEY: Key = (("place", "STRING"), ("n", "BIGINT"))
HASHED_BY = ("xxhash64", NO_SPARK.version)
STORED, NEW, GREATEST = 3, 4, 2**64 - 1


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return replace(create_table(tmp_path, PARIS), key=("place", "n"))


def of(*numbers: int) -> Hashes:
    return np.array(numbers, dtype=np.uint64)


def files_of(layout: Layout) -> Files:
    table = open_table(layout.uri)
    assert table
    return {file["path"]: (file["size"], file["rows"]) for file in active_files(table, layout.uri).to_pylist()}


def pack(layout: Layout, key: Key = KEY, **changes: Any) -> Path:
    """Write a pack with ``STORED`` and others for the files of a table, and return its path."""
    files, folder = files_of(layout) | changes.get("files", {}), Path(layout.uri, KEYS_FOLDER)
    folder.mkdir()
    write_pack(folder, [changes.get("hashed_by", HASHED_BY), *key], files, of(1, STORED, GREATEST))
    (path,) = packs_of(layout)
    return path


def packs_of(layout: Layout) -> list[Path]:
    return sorted(Path(layout.uri, KEYS_FOLDER).glob(f"*{SUFFIX}"))


def are_new(layout: Layout, *numbers: int, version: int = 0) -> bool:
    return KeyHashes(NO_SPARK, layout).are_new(of(*numbers), version, None)


def test_keys_are_new_if_no_pack_has_their_hash_and_every_file_has_a_pack(layout: Layout) -> None:
    assert not are_new(layout, NEW), "no file has a pack"
    pack(layout)
    assert are_new(layout, NEW, 0, 2, GREATEST - 1)
    for number in (1, STORED, GREATEST):
        assert not are_new(layout, NEW, number)
    assert not are_new(layout, NEW, version=1), "nothing is known of another version"
    append_quickly(layout, rows(OSLO), next_commit(layout))
    assert not are_new(layout, NEW, version=1), "the new file has no pack"


def flip(place: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + bytes([content[place] ^ 1]) + content[place:][1:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "without its last hash": lambda content: content[:-8],
    "with half of a hash": lambda content: content[:-4],
    "with another last hash": lambda content: content[:-8] + bytes(8),
    "with another byte in the header": flip(30),
    "with another length of the header": flip(0),
    "with another checksum": flip(8),
    "with nothing but zeros": lambda content: bytes(len(content)),
    "with a few bytes": lambda content: content[:5],
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pack_is_none(layout: Layout, damage: str) -> None:
    path = pack(layout)
    assert are_new(layout, NEW)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert not are_new(layout, NEW)


def test_a_pack_of_a_later_form_or_by_another_spark_is_none(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(layout, hashed_by=("xxhash64", "4.3.0")).rename(Path(layout.uri, KEYS_FOLDER, f"other{SUFFIX}"))
    monkeypatch.setattr(key_packs, "_FORM", 2)
    write_pack(Path(layout.uri, KEYS_FOLDER), [HASHED_BY, *KEY], files_of(layout), of(1))
    monkeypatch.undo()
    assert len(packs_of(layout)) == 2 and not are_new(layout, NEW)


@pytest.mark.parametrize("key", [KEY[:1], KEY[::-1], (("place", "STRING"), ("n", "INT")), (("city", "STRING"), KEY[1])])
def test_a_pack_of_another_key_is_none(layout: Layout, key: Key) -> None:
    pack(layout, key)
    assert not are_new(layout, NEW)


@pytest.mark.parametrize(("size", "count"), [(1, 0), (0, 1)])
def test_a_file_with_another_size_or_number_of_rows_has_no_pack(layout: Layout, size: int, count: int) -> None:
    append_quickly(layout, rows(OSLO), next_commit(layout))
    (path, (stored_size, stored_count)), _ = files_of(layout).items()
    assert stored_count is not None
    pack(layout, files={path: (stored_size + size, stored_count + count)})
    assert not are_new(layout, NEW, version=1)


def test_a_pack_of_another_table_says_nothing_of_this_one(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other_layout = replace(create_table(tmp_path / "other", OSLO), key=("place", "n"))
    pack(other_layout).parent.rename(Path(layout.uri, KEYS_FOLDER))
    assert not are_new(layout, NEW)


def test_a_table_without_rows_has_no_key(tmp_path: Path) -> None:
    layout = replace(create_table(tmp_path), key=("place", "n"))
    keys = KeyHashes(NO_SPARK, layout)
    assert are_new(layout, NEW) and keys.are_new(None, 0, None)
    assert not keys.are_new(None, 1, None)
    assert not KeyHashes(NO_SPARK, replace(layout, key=())).are_new(None, 0, None), "a log table has no key"


def test_small_packs_become_one(layout: Layout) -> None:
    pack(layout)
    for number in range(100, 132):
        entry = append_quickly(layout, rows(OSLO), next_commit(layout))
        KeyHashes(NO_SPARK, layout).follow(entry, lambda: read_ledger(layout.uri, "t"), of(number, 5), None)
        assert len(packs_of(layout)) <= 6
    assert are_new(layout, NEW, 132, version=32)
    assert not any(are_new(layout, number, version=32) for number in (1, STORED, GREATEST, 5, *range(100, 132)))
    hashes = [number for path in packs_of(layout) if (opened := open_pack(path)) for number in opened.read().tolist()]
    assert hashes.count(5) < 6, "a hash is in a pack once"


@pytest.fixture
def always_inserting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest batches only inserted, in any ledger."""
    monkeypatch.setattr(key_hashes, "_INSERTING_BATCHES", 0)


@pytest.mark.usefixtures("always_inserting")
def test_packs_of_former_files_and_drafts_are_removed(layout: Layout) -> None:
    kept_path = pack(layout)
    key: Key = [HASHED_BY, *KEY]
    former_files: Files = {"former.parquet": (1, 1)}
    write_pack(kept_path.parent, key, former_files, of(7))
    write_pack(kept_path.parent, key, files_of(layout) | former_files, of(7))
    kept_path.with_name(f"damaged{SUFFIX}").write_bytes(b"-")
    kept_path.with_name(".draft").touch()
    kept_path.with_name("folder").mkdir()
    KeyHashes(NO_SPARK, layout).renew(read_ledger(layout.uri, "t"))
    assert {path.name for path in kept_path.parent.iterdir()} == {kept_path.name, "folder"}


def test_a_table_that_is_updated_keeps_no_packs(layout: Layout) -> None:
    pack(layout)
    KeyHashes(NO_SPARK, layout).renew(read_ledger(layout.uri, "t"))
    assert not packs_of(layout)


@pytest.mark.invariant("14.9")
def test_an_erasure_removes_all_packs_and_stops_those_of_keys_that_were_read_before(layout: Layout) -> None:
    pack(layout)
    keys = KeyHashes(NO_SPARK, layout)
    erasure = keys._erasure
    keys.erase()
    assert not packs_of(layout)
    keys._add(files_of(layout), of(STORED), erasure)
    assert not packs_of(layout)
    keys._add(files_of(layout), of(STORED), keys._erasure)
    assert len(packs_of(layout)) == 1


def test_an_erasure_fails_if_packs_cannot_be_removed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(layout)

    def refuse(path: Path, **_: bool) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(TableError, match="Permission denied"):
        KeyHashes(NO_SPARK, layout).erase()


@pytest.mark.usefixtures("always_inserting")
def test_a_batch_stays_committed_if_keys_cannot_be_packed(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entry = append_quickly(layout, rows(OSLO), next_commit(layout))

    def fail(*_: object) -> None:
        raise ValueError("a damaged file")

    monkeypatch.setattr(key_hashes, "read_files", fail)
    KeyHashes(NO_SPARK, layout).follow(entry, lambda: read_ledger(layout.uri, "t"), of(7), None)
    assert "Keys of t are not packed: a damaged file" in caplog.text and len(packs_of(layout)) == 1
