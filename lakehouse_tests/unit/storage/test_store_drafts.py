"""Few rows are committed into a table in a store by requests whose number does not depend on its history."""

import fcntl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import ConflictError, StoreRefusedError, TableError
from lakehouse.ledger.log_copies import copied_log
from lakehouse.settings.store import keep_copies_in
from lakehouse.storage import store_drafts
from lakehouse.storage.delta_rs_writer import append_nothing, append_quickly, upsert_quickly
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.tables.azurite import AnyStore
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, create_table, next_commit, read_stored, rows
from lakehouse_tests.helpers.tables.proxy_server import Fault
from lakehouse_tests.helpers.tables.store_proxy import StoreProxy


@pytest.fixture
def layout(store: AnyStore, proxy: StoreProxy, tmp_path: Path) -> Iterator[Layout]:
    """A table of one row in the store, and no faults."""
    keep_copies_in(tmp_path / "copies")
    local_layout = create_table(tmp_path, PARIS)
    layout = replace(local_layout, uri=f"{store.root}/{tmp_path.name}/t")
    write_deltalake(layout.uri, rows(PARIS), configuration=layout.statistics_properties)
    yield layout
    proxy.clear_faults()


def append(layout: Layout) -> int:
    return append_quickly(layout, rows(OSLO), next_commit(layout)).version


def test_the_number_of_requests_of_a_commit_does_not_grow_with_the_history(layout: Layout, proxy: StoreProxy) -> None:
    counts = []
    for _ in range(25):
        proxy.reset()
        append(layout)
        counts.append(len(proxy.requests()))
    with_checkpoint = {9, 19}  # the versions 10 and 20
    assert {counts[number] for number in range(1, 25) if number not in with_checkpoint} == {counts[1]}
    assert counts[1] <= 8 and max(counts) <= 14
    assert len(read_stored(layout)) == 26


def test_a_checkpoint_has_all_rows_before_it(layout: Layout, store: AnyStore) -> None:
    for _ in range(11):
        append(layout)
    for version in range(10):
        store.remove(f"{layout.uri.removeprefix(f'{store.root}/')}/_delta_log/{version:020d}.json")
    assert len(read_stored(layout)) == 12
    keep_copies_in(Path(str(copied_log(layout.uri)) + "-new"))
    assert append(layout) == 12


def test_rows_are_updated_deleted_and_inserted_by_key(layout: Layout) -> None:
    new_rows = rows((*PARIS[:3], 9, False), (*OSLO, False))
    upsert_quickly(layout, new_rows, ["place"], "gone", next_commit(layout))
    assert [row[3] for row in read_stored(layout)] == [1, 9]
    upsert_quickly(layout, rows((*OSLO, True)), ["place"], "gone", next_commit(layout))
    assert [row[0] for row in read_stored(layout)] == ["Paris"]
    assert append_nothing(layout, next_commit(layout)).version == 3


def test_a_commit_that_another_writer_overtakes_is_refused_and_leaves_no_entry(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, transfer = next_commit(layout), store_drafts._Draft.transfer

    def overtake(draft: store_drafts._Draft, transfer_one: object, paths: object) -> None:
        monkeypatch.setattr(store_drafts._Draft, "transfer", transfer)
        write_deltalake(layout.uri, rows(OSLO), mode="append")
        draft.transfer(transfer_one, paths)  # type: ignore[arg-type]

    monkeypatch.setattr(store_drafts._Draft, "transfer", overtake)
    with pytest.raises(ConflictError, match="Another writer changed t"):
        append_quickly(layout, rows(OSLO), commit)
    assert DeltaTable(layout.uri).version() == 1 and len(read_stored(layout)) == 2
    assert append(layout) == 2


def test_a_commit_whose_answer_is_lost_counts_once(layout: Layout, proxy: StoreProxy) -> None:
    proxy.add_fault(Fault("lose answer", method="PUT", commits_only=True, times=1))
    assert append(layout) == 1
    assert len(read_stored(layout)) == 2


def test_without_its_data_file_no_entry_is_made(layout: Layout, proxy: StoreProxy) -> None:
    proxy.add_fault(Fault("answer", method="PUT", path=r"\.parquet", status=403, code="AccessDenied"))
    with pytest.raises(StoreRefusedError, match="Access to the table's files is denied"):
        append(layout)
    proxy.clear_faults()
    assert append(layout) == 1


def test_a_draft_of_a_killed_process_is_removed_and_one_of_a_running_one_is_not(layout: Layout) -> None:
    append(layout)
    left_draft, other_draft = (copied_log(layout.uri).with_name("other") / f"draft-{name}" for name in ("left", "kept"))
    for folder in (left_draft, other_draft):
        folder.mkdir(parents=True)
    with (other_draft / "draft.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        append(layout)
        assert (left_draft.exists(), other_draft.exists()) == (False, True)


def test_an_entry_is_not_published_without_its_files(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = store_drafts._Draft.publish

    def lose_files(draft: store_drafts._Draft, version: int) -> bool:
        for file in draft.folder.glob("*.parquet"):
            file.unlink()
        return publish(draft, version)

    commit = next_commit(layout)
    monkeypatch.setattr(store_drafts._Draft, "publish", lose_files)
    with pytest.raises(TableError, match="No such file"):
        append_quickly(layout, rows(OSLO), commit)
    assert DeltaTable(layout.uri).version() == 0
