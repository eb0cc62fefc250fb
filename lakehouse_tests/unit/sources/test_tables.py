"""Another table as a source: which versions it holds, how batches divide them, and when its history is another one."""

import json
import shutil
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.declaration import Column, StreamTable, TableRows
from lakehouse.errors import SourceError, TableError
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds, plan_batch
from lakehouse.ledger.positions import VERSION_PLACES, Plan, Range, find_gap
from lakehouse.settings import Settings
from lakehouse.sources.tables.source import TableSource
from lakehouse.sources.tables.versions import CHANGES, MAX_VERSIONS, ROWS, changed_rows, has_rows, lost_versions
from lakehouse.storage.row_changes import list_changes
from lakehouse_tests.helpers.sensors import MERGED


@pytest.fixture
def accounts(tmp_path: Path) -> Path:
    """A table of accounts with versions 0 to 3."""
    folder = tmp_path / "accounts"
    add(folder, 4)
    return folder


def add(folder: Path, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        rows = pa.table({"id": pa.array(range(number + 1), pa.int32())})
        write_deltalake(str(folder), rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def source_of(folder: Path, *, key: Sequence[str] = ("id",)) -> TableSource:
    columns = [Column("id", "INT", "Account.", required=True)]
    rows = TableRows(str(folder))
    table = StreamTable(name="balances", doc="Balances.", columns=columns, key=key, source=rows)
    return TableSource(Settings(home=folder.parent / "home", _env_file=None), table, rows)


def after(source: TableSource, plan: Plan) -> Ledger:
    """The ledger of the table after a batch that read a plan."""
    fields = {**MERGED, "source": plan.source, "stream": plan.stream, "progress": plan.progress.positions}
    commit = Commit(**fields, consumed_tables=source.consumed(plan))
    entry = Entry(1, datetime.now(UTC), commit, Metrics())
    return Ledger("balances", exists=True, version=1, transaction=commit.number, entries=(entry,))


def test_a_new_table_begins_with_the_rows_of_the_newest_version(accounts: Path) -> None:
    state = source_of(accounts).read_state(Ledger("balances"), 1)
    assert state.starts == {ROWS: 3 * VERSION_PLACES, CHANGES: 4 * VERSION_PLACES}
    assert plan_batch(state, None).ranges[CHANGES].span == 0


def test_a_batch_has_whole_versions_with_as_many_rows_as_are_allowed(accounts: Path) -> None:
    source = source_of(accounts)
    ledger = after(source, plan_batch(source.read_state(Ledger("balances"), 1), None))
    add(accounts, 3, first=4)  # versions 4, 5 and 6 with 5, 6 and 7 rows
    state = source.read_state(ledger, 1)
    for limit, last in ((1, 4), (5, 4), (11, 5), (12, 5), (18, 6), (None, 6)):
        plan = plan_batch(state, ledger.progress, Bounds(limit))
        assert plan.ranges[CHANGES].end == (last + 1) * VERSION_PLACES, limit
        assert (plan.ranges[ROWS].span, plan.gap) == (0, None)


@pytest.mark.invariant("9.12")
def test_an_older_copy_in_the_place_of_the_table_is_noticed(accounts: Path) -> None:
    source, copy = source_of(accounts), accounts.parent / "copy"
    shutil.copytree(accounts, copy)
    add(accounts, 3, first=4)
    ledger = after(source, plan_batch(source.read_state(Ledger("balances"), 1), None))
    assert source.read_state(ledger, 1).end[CHANGES] == 7 * VERSION_PLACES
    shutil.rmtree(accounts)
    shutil.copytree(copy, accounts)
    add(accounts, 5, first=4)
    assert DeltaTable(str(accounts)).version() == 8
    with pytest.raises(SourceError, match="Version 6 of the table that balances reads is another one"):
        source.read_state(ledger, 1)


def delete_files_of(folder: Path, version: int) -> None:
    """Delete the data files that a version added, as VACUUM does once later versions have removed them."""
    for line in (folder / f"_delta_log/{version:020d}.json").read_text().splitlines():
        if "add" in (action := json.loads(line)):
            (folder / action["add"]["path"]).unlink()


def next_plan(source: TableSource, ledger: Ledger) -> Plan:
    return plan_batch(source.read_state(ledger, 1), ledger.progress)


@pytest.mark.invariant("9.13")
@pytest.mark.parametrize(("key", "continues_at"), [(("id",), (7, 8)), ((), (3, 6))])
def test_change_data_that_is_gone_is_a_gap_once_the_versions_before_it_are_read(
    accounts: Path, key: Sequence[str], continues_at: tuple[int, int]
) -> None:
    source = source_of(accounts, key=key)
    ledger = after(source, next_plan(source, Ledger("balances")))
    add(accounts, 4, first=4)
    delete_files_of(accounts, 5)
    plan = next_plan(source, ledger)
    assert (plan.gap, plan.ranges[CHANGES].end) == (None, 5 * VERSION_PLACES)
    state = source.read_state(ledger := after(source, plan), 1)
    gap = find_gap(state, ledger.progress)
    assert gap
    assert gap.expired
    lost_text = "Versions 5 to 7" if key else "Version 5"
    assert gap.facts[-1].startswith(f"{lost_text} of {accounts} can no longer be read, and were not")
    starts = {part.partition: part.start // VERSION_PLACES for part in next_plan(source, ledger).ranges}
    assert (starts[ROWS], starts[CHANGES]) == continues_at


@pytest.mark.invariant("9.13")
@pytest.mark.parametrize(("limit", "end"), [(MAX_VERSIONS, 7), (2, 6)])
def test_what_is_held_after_a_gap_ends_before_the_next_version_that_is_gone_or_was_not_looked_at(
    accounts: Path, monkeypatch: pytest.MonkeyPatch, limit: int, end: int
) -> None:
    monkeypatch.setattr("lakehouse.sources.tables.source.MAX_VERSIONS", limit)
    source = source_of(accounts, key=())
    ledger = after(source, next_plan(source, Ledger("balances")))
    add(accounts, 6, first=4)
    for version in (4, 7):
        delete_files_of(accounts, version)
    plan = next_plan(source, ledger)
    assert plan.gap
    changes = plan.ranges[CHANGES]
    assert (changes.start, changes.end) == (5 * VERSION_PLACES, end * VERSION_PLACES)


def find_lost(folder: Path, first: int, last: int) -> set[int]:
    """The versions from ``first`` to ``last`` that are lost."""
    return lost_versions(str(folder), range(first, last + 1), list_changes(str(folder), first, last))


def switch_change_data(folder: Path, value: str) -> None:
    DeltaTable(str(folder)).alter.set_table_properties({"delta.enableChangeDataFeed": value})


@pytest.mark.invariant("9.13")
@pytest.mark.parametrize(("key", "continues_at"), [(("id",), (9, 10)), ((), (3, 8))])
@pytest.mark.parametrize("limit", [MAX_VERSIONS, 2])
def test_versions_without_change_data_are_a_gap(
    accounts: Path, monkeypatch: pytest.MonkeyPatch, key: Sequence[str], continues_at: tuple[int, int], limit: int
) -> None:
    monkeypatch.setattr("lakehouse.sources.tables.source.MAX_VERSIONS", limit)
    source = source_of(accounts, key=key)
    ledger = after(source, next_plan(source, Ledger("balances")))
    add(accounts, 1, first=4)
    switch_change_data(accounts, "false")  # version 5
    add(accounts, 2, first=6)
    switch_change_data(accounts, "true")  # version 8
    add(accounts, 1, first=9)
    assert find_lost(accounts, 4, 9) == {5, 6, 7}
    plan = next_plan(source, ledger)
    assert (plan.gap, plan.ranges[CHANGES].end) == (None, 5 * VERSION_PLACES)
    ledger = after(source, plan)
    gap = find_gap(source.read_state(ledger, 1), ledger.progress)
    assert gap
    assert "change data was off" in gap.facts[-1]
    starts = {part.partition: part.start // VERSION_PLACES for part in next_plan(source, ledger).ranges}
    assert starts[ROWS] == continues_at[0]
    assert starts[CHANGES] == (continues_at[1] if limit == MAX_VERSIONS or key else 7)


def test_change_data_that_was_on_before_a_switch_is_read(accounts: Path) -> None:
    switch_change_data(accounts, "true")  # version 4: other properties are also a switch
    add(accounts, 1, first=5)
    assert find_lost(accounts, 0, 5) == find_lost(accounts, 4, 5) == set()
    assert find_lost(accounts, 6, 5) == set()


@pytest.mark.invariant("9.13")
def test_features_that_a_look_does_not_know_are_refused_before_the_start_is_recorded(accounts: Path) -> None:
    source = source_of(accounts)
    features = ["deletionVectors", "typeWidening"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    actions = [{"protocol": {**protocol, "writerFeatures": [*features, "changeDataFeed"]}}, {"commitInfo": {}}]
    (accounts / "_delta_log" / f"{4:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(TableError, match=r"needs a newer version of Delta.*TypeWidening.* DROP FEATURE"):
        source.read_state(Ledger("balances"), 1)


@pytest.mark.invariant("9.13")
def test_rows_that_are_gone_before_they_were_read_are_a_gap(accounts: Path) -> None:
    source = source_of(accounts)
    state = source.read_state(Ledger("balances"), 1)
    begun_plan = Plan(state.stream, state.source, tuple(Range(p, start, start) for p, start in state.starts.items()))
    ledger = after(source, begun_plan)
    assert next_plan(source, ledger).gap is None
    add(accounts, 1, first=4)
    delete_files_of(accounts, 2)
    plan = next_plan(source, ledger)
    assert plan.gap
    assert plan.gap.facts[0] == f"After the loss, all rows of {accounts} are read as of version 4"
    assert [part.start // VERSION_PLACES for part in plan.ranges] == [4, 5]


def test_a_commit_that_is_gone_is_a_gap(accounts: Path) -> None:
    source = source_of(accounts)
    ledger = after(source, next_plan(source, Ledger("balances")))
    add(accounts, 2, first=4)
    DeltaTable(str(accounts)).create_checkpoint()
    for version in range(5):
        (accounts / f"_delta_log/{version:020d}.json").unlink()
    state = source.read_state(ledger, 1)
    assert find_gap(state, ledger.progress)


def test_a_table_without_change_data_and_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        source_of(tmp_path / "missing").read_state(None, 1)
    write_deltalake(str(tmp_path / "plain"), pa.table({"id": [1]}))
    with pytest.raises(SourceError, match="keeps no change data"):
        source_of(tmp_path / "plain").read_state(None, 1)


def set_clocks(table: Path, times: Sequence[int]) -> None:
    """Give the versions of a table, from 0 on, these times of their commits, in seconds."""
    for version, seconds in enumerate(times):
        file = table / "_delta_log" / f"{version:020d}.json"
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        for info in (action["commitInfo"] for action in actions if "commitInfo" in action):
            info["timestamp"] = seconds * 1_000
        file.write_text("\n".join(map(json.dumps, actions)))


def test_the_time_of_a_version_is_that_of_its_commit(accounts: Path) -> None:
    set_clocks(accounts, [10, 30, 20, 40])
    assert [changes.microseconds // 1_000_000 for changes in list_changes(str(accounts), 1, 3)] == [30, 20, 40]


@pytest.mark.invariant("9.13")
def test_a_version_whose_deletion_vector_was_deleted_is_lost(accounts: Path) -> None:
    """Double: a commit as Spark writes it for a second DELETE; deltalake writes none with deletion vectors."""
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 1,
        "sizeInBytes": 9,
        "cardinality": 1,
    }
    path = Path(DeltaTable(accounts).file_uris()[0])
    file = {"path": path.name, "dataChange": True, "size": path.stat().st_size, "partitionValues": {}}
    file["modificationTime"] = 0
    commit = [{"commitInfo": {}}, {"remove": {**file, "deletionVector": vector}}, {"add": file}]
    lines = "\n".join(map(json.dumps, commit))
    (accounts / "_delta_log" / f"{4:020d}.json").write_text(lines)
    assert find_lost(accounts, 1, 4) == {4}
    vector_file = accounts / "ab" / "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    vector_file.parent.mkdir()
    vector_file.touch()
    assert find_lost(accounts, 1, 4) == set()


@pytest.mark.invariant("9.13")
def test_a_version_with_a_file_of_another_folder_that_was_deleted_is_lost(accounts: Path) -> None:
    """Double: a commit as Spark writes it for a shallow clone."""
    other_file = accounts.parent / "another table" / "a.parquet"
    file = {"path": other_file.as_uri(), "dataChange": True, "size": 1, "partitionValues": {}, "modificationTime": 0}
    commit = [{"commitInfo": {}}, {"add": file}]
    (accounts / "_delta_log" / f"{4:020d}.json").write_text("\n".join(map(json.dumps, commit)))
    assert find_lost(accounts, 1, 4) == {4}
    other_file.parent.mkdir()
    other_file.touch()
    assert find_lost(accounts, 1, 4) == set()


@pytest.mark.invariant("9.13")
def test_rows_whose_deletion_vector_was_deleted_are_lost(accounts: Path) -> None:
    """Double: a commit as Spark writes it for a DELETE of the second row, with a bitmap of one position."""
    feature = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    protocol = {**feature, "writerFeatures": ["deletionVectors", "changeDataFeed"]}
    bitmap = struct.pack("<IQIIIHHIH", 1681511377, 1, 0, 12346, 1, 0, 0, 16, 1)
    vector = {"storageType": "u", "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": len(bitmap)}
    vector_file = accounts / "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    vector_file.write_bytes(b"\1" + struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", crc32(bitmap)))
    entry = accounts / "_delta_log" / f"{3:020d}.json"
    (file,) = [action["add"] for action in map(json.loads, entry.read_text().splitlines()) if "add" in action]
    actions = [{"protocol": protocol}, {"remove": {"path": file["path"], "dataChange": True}}]
    actions += [{"add": {**file, "deletionVector": {**vector, "cardinality": 1}}}, {"commitInfo": {}}]
    (accounts / "_delta_log" / f"{4:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    assert has_rows(str(accounts), 4)
    vector_file.unlink()
    assert not has_rows(str(accounts), 4)
    assert has_rows(str(accounts), 3)


def test_every_changed_row_of_a_version_counts_for_the_limit_of_a_batch(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2, 3]}))
    table = DeltaTable(tmp_path)

    def merge(*ids: int) -> Any:
        return table.merge(pa.table({"id": ids}), "s.id = t.id", source_alias="s", target_alias="t")

    merge(1, 2, 9).when_matched_update_all().when_not_matched_insert_all().execute()
    merge(1, 2).when_matched_delete().execute()
    table.update(updates={"id": "id + 1"}, predicate="id = 9")
    table.delete("id = 3")
    counts = {info["version"]: changed_rows(info) for info in table.history()}
    assert counts[0] == 3
    assert counts[1] >= 3
    assert counts[2] >= 2
    assert (counts[3], counts[4]) == (1, 1)
