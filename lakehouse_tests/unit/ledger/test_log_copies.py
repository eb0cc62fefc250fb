"""The copy of a log in a store: as current as the last look at the store, whose requests are few."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import StoreRefusedError, TableError
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import open_rows, open_table, read_commit, read_history
from lakehouse.ledger.log_copies import copied_log, look_again, look_once
from lakehouse.settings.store import keep_copies_in
from lakehouse_tests.helpers.tables.azurite import KEY, AnyStore
from lakehouse_tests.helpers.tables.proxy_server import Fault
from lakehouse_tests.helpers.tables.store_proxy import StoreProxy

ROWS = pa.table({"id": [1]})


@pytest.fixture
def root(store: AnyStore, proxy: StoreProxy, tmp_path: Path) -> str:
    keep_copies_in(tmp_path / "copies")
    return f"{store.root}/{tmp_path.name}"


def append(uri: str, count: int = 1) -> None:
    for _ in range(count):
        write_deltalake(uri, ROWS, mode="append")


def version(uri: str) -> int:
    table = open_table(uri)
    return table.version() if table else -1


def test_a_log_without_news_costs_one_request(root: str, proxy: StoreProxy) -> None:
    append(f"{root}/t", 30)
    assert version(f"{root}/t") == 29
    proxy.reset()
    assert version(f"{root}/t") == 29
    assert len(proxy.requests()) == 1
    assert version(f"{root}/none") == -1
    assert len(proxy.requests()) == 2


def test_within_a_block_a_log_is_looked_at_once_and_again_if_that_is_asked(root: str) -> None:
    append(f"{root}/t")
    with look_once():
        assert version(f"{root}/t") == 0
        append(f"{root}/t")
        assert version(f"{root}/t") == 0
        look_again()
        assert version(f"{root}/t") == 1
        append(f"{root}/t")
    assert version(f"{root}/t") == 2


def test_what_a_commit_says_of_another_table_is_never_newer_than_what_is_known_of_it(root: str) -> None:
    append(f"{root}/rejected")
    append(f"{root}/merged")
    with look_once():
        assert version(f"{root}/rejected") == 0
        append(f"{root}/rejected")
        append(f"{root}/merged")  # names version 1 of the other
        assert (version(f"{root}/merged"), version(f"{root}/rejected")) == (1, 1)


def test_a_first_copy_has_the_newest_entries_and_earlier_ones_follow_when_they_are_read(
    root: str, proxy: StoreProxy
) -> None:
    append(f"{root}/t", 130)
    proxy.reset()
    assert version(f"{root}/t") == 129
    assert len(proxy.requests()) < 110
    assert read_commit(f"{root}/t", 3) is not None
    assert len(read_history(f"{root}/t")) == 130
    assert read_ledger(f"{root}/t", "t", whole=True).complete


def test_a_copy_follows_the_clean_up_of_the_log(root: str) -> None:
    uri = f"{root}/t"
    write_deltalake(uri, ROWS, configuration={"delta.logRetentionDuration": "interval 0 seconds"})
    append(uri, 3)
    assert version(uri) == 3
    table = DeltaTable(uri)
    table.create_checkpoint()
    table.cleanup_metadata()
    append(uri)
    assert version(uri) == 4
    names = {file.name for file in (copied_log(uri) / "_delta_log").glob("*.json")}
    assert names == {f"{number:020d}.json" for number in (3, 4)}


def test_a_copy_that_is_damaged_or_deleted_is_fetched_again(root: str) -> None:
    uri = f"{root}/t"
    append(uri, 2)
    assert version(uri) == 1
    (copied_log(uri) / "_delta_log" / f"{0:020d}.json").unlink()
    assert version(uri) == 1
    (copied_log(uri) / "etags.json").write_text("{not json")
    append(uri)
    assert version(uri) == 2


def empty(file: Path) -> None:
    """Leave of a file what a power cut may leave."""
    file.write_bytes(b"")


def test_a_copy_whose_file_has_another_size_is_fetched_again(root: str) -> None:
    uri = f"{root}/t"
    append(uri, 3)
    assert version(uri) == 2
    empty(copied_log(uri) / "_delta_log" / f"{1:020d}.json")
    table = open_table(uri)
    assert table is not None and table.version() == 2 and len(table.get_add_actions()) == 3


def test_a_checkpoint_that_comes_after_a_later_entry_is_copied(root: str) -> None:
    uri = f"{root}/t"
    append(uri, 11)
    table = DeltaTable(uri, version=10)
    append(uri)
    assert version(uri) == 11
    table.create_checkpoint()
    assert version(uri) == 11
    append(uri)
    assert version(uri) == 12
    assert f"{10:020d}.checkpoint.parquet" in {file.name for file in (copied_log(uri) / "_delta_log").iterdir()}


def test_a_log_without_a_checkpoint_is_copied_whole(root: str) -> None:
    uri = f"{root}/t"
    write_deltalake(uri, ROWS, configuration={"delta.checkpointInterval": "1000"})
    append(uri, 149)
    assert version(uri) == 149


def test_a_listed_entry_that_cannot_be_fetched_leaves_the_copy_as_it_was(root: str, proxy: StoreProxy) -> None:
    uri = f"{root}/t"
    append(uri, 2)
    assert version(uri) == 1
    append(uri, 2)
    proxy.add_fault(Fault("answer", method="GET", path=f"{2:020d}.json", status=404, code="NoSuchKey", times=4))
    with pytest.raises(TableError):
        version(uri)
    proxy.clear_faults()
    assert version(uri) == 3


def test_a_look_ends_when_another_process_of_the_home_has_looked(root: str) -> None:
    for name in ("merged", "rejected"):
        append(f"{root}/{name}")
    with look_once():
        assert (version(f"{root}/merged"), version(f"{root}/rejected")) == (0, 0)
        for name in ("rejected", "merged"):  # the second names the version of the first
            append(f"{root}/{name}")
        with ThreadPoolExecutor(1) as other_thread:
            assert other_thread.submit(version, f"{root}/merged").result() == 1
        assert (version(f"{root}/merged"), version(f"{root}/rejected")) == (1, 1)


def test_rows_are_read_with_the_present_keys(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"{root}/t"
    append(uri)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "former")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "Zm9ybWVy")
    with pytest.raises(StoreRefusedError):
        open_rows(uri)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    table = open_rows(uri)
    assert table is not None and table.to_pyarrow_table().num_rows == 1
