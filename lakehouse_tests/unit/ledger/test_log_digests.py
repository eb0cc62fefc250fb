"""A log entry that another writer replaced stops the next commit, until a RESTORE undoes it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.errors import TableDamagedError
from lakehouse.ledger.audit import audit
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log_copies import replaced_versions
from lakehouse.settings.store import Store, keep_copies_in
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.layout import Layout
from lakehouse_tests.helpers.tables.azurite import AnyStore
from lakehouse_tests.helpers.tables.plain_tables import OSLO, PARIS, create_table, next_commit, rows

NEWEST = f"_delta_log/{2:020d}.json"


@pytest.fixture(params=["disk", "store"])
def layout(request: pytest.FixtureRequest, store: AnyStore, tmp_path: Path) -> Layout:
    """A table whose versions 1 and 2 are commits of lakehouse."""
    layout = create_table(tmp_path, PARIS)
    if request.param == "store":
        keep_copies_in(tmp_path / "copies")
        layout = replace(layout, uri=f"{store.root}/{tmp_path.name}/t")
        write_deltalake(layout.uri, rows(PARIS), configuration=layout.statistics_properties)
    append(layout)
    append(layout)
    return layout


def append(layout: Layout) -> int:
    return append_quickly(layout, rows(OSLO), next_commit(layout)).version


def replace_newest(layout: Layout, store: AnyStore) -> None:
    """Put a commit of another writer in the place of version 2, as a writer without conditional commits does."""
    place = Store(layout.uri)
    file = place.folder / NEWEST if place.folder else None
    old_entry = file.read_bytes() if file else place.read_end(NEWEST, 1_000_000)
    actions = [json.loads(line) for line in old_entry.splitlines()]
    kept_actions = [action for action in actions if not {"commitInfo", "txn"} & action.keys()]
    info = {
        "commitInfo": {
            "timestamp": 1,
            "operation": "WRITE",
            "engineInfo": "Apache-Spark of somebody",
        }
    }
    new_entry = "\n".join(map(json.dumps, [info, *kept_actions])).encode()
    if file:
        file.write_bytes(new_entry)
    else:
        store.put(f"{layout.uri.removeprefix(f'{store.root}/')}/{NEWEST}", new_entry)


def is_unchanged(layout: Layout) -> bool:
    ledger = read_ledger(layout.uri, "t", whole=True)
    return next(finding.passed for finding in audit(ledger) if finding.check == "log_unchanged")


def undo(layout: Layout) -> None:
    DeltaTable(layout.uri, storage_options=Store(layout.uri).options).restore(1)


def test_every_commit_names_the_digest_of_the_entry_before_it(layout: Layout) -> None:
    digests = [entry.commit.follows for entry in read_ledger(layout.uri, "t").entries]
    assert len({*digests}) == 2 and all(len(digest) == 64 for digest in digests)
    assert is_unchanged(layout)


@pytest.mark.invariant("11.11")
def test_an_entry_that_was_replaced_under_a_later_commit_stops_the_next_one(layout: Layout, store: AnyStore) -> None:
    append(layout)
    replace_newest(layout, store)
    assert not is_unchanged(layout)
    with pytest.raises(TableDamagedError, match="Version 2 of t is not the commit that it was: Apache-Spark"):
        append(layout)
    undo(layout)
    assert append(layout) == 5
    assert is_unchanged(layout)


@pytest.mark.invariant("11.11")
@pytest.mark.parametrize("layout", ["store"], indirect=True)
def test_the_newest_entry_of_a_store_is_compared_with_its_copy(layout: Layout, store: AnyStore) -> None:
    replace_newest(layout, store)
    for _ in range(2):
        with pytest.raises(TableDamagedError, match="Version 2 of t is not the commit that it was: Apache-Spark"):
            append(layout)
    assert not is_unchanged(layout)
    undo(layout)
    assert is_unchanged(layout)
    assert append(layout) == 4


@pytest.mark.parametrize("layout", ["store"], indirect=True)
def test_a_table_that_was_created_again_is_another_one(layout: Layout, store: AnyStore) -> None:
    for version in range(3):
        store.remove(f"{layout.uri.removeprefix(f'{store.root}/')}/_delta_log/{version:020d}.json")
    for _ in range(3):
        write_deltalake(layout.uri, rows(OSLO), mode="append", configuration=layout.statistics_properties)
    assert read_ledger(layout.uri, "t").version == 2
    assert append(layout) == 3


@pytest.mark.parametrize("layout", ["store"], indirect=True)
def test_a_restore_by_time_undoes_a_replaced_entry_and_is_remembered(layout: Layout, store: AnyStore) -> None:
    replace_newest(layout, store)
    with pytest.raises(TableDamagedError):
        append(layout)
    undo(layout)
    name = f"_delta_log/{3:020d}.json"
    entry = [json.loads(line) for line in Store(layout.uri).read_end(name, 1_000_000).splitlines()]
    for action in entry:
        if "commitInfo" in action:
            action["commitInfo"]["operationParameters"] = {"timestamp": "2026-01-01 00:00:00"}
    path = f"{layout.uri.removeprefix(f'{store.root}/')}/{name}"
    store.put(path, "\n".join(map(json.dumps, entry)).encode())
    assert append(layout) == 4
    assert replaced_versions(layout.uri) == []
