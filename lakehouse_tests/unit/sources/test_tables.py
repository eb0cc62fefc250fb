"""Another table as a source: which versions it holds, how batches divide them, and when its history is another one."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.declaration import Column, StreamTable, TableRows
from lakehouse.errors import SourceError
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds, plan_batch
from lakehouse.ledger.positions import VERSION_PLACES, Plan
from lakehouse.settings import Settings
from lakehouse.sources.tables.look import CHANGES, ROWS
from lakehouse.sources.tables.source import TableSource
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


def source_of(folder: Path) -> TableSource:
    columns = [Column("id", "INT", "Account.", required=True)]
    rows = TableRows(str(folder))
    table = StreamTable(name="balances", doc="Balances.", columns=columns, key=["id"], source=rows)
    return TableSource(Settings(home=folder.parent / "home", _env_file=None), table, rows)


def after(source: TableSource, plan: Plan) -> Ledger:
    """The ledger of the table after a batch that read a plan."""
    fields = {**MERGED, "source": plan.source, "stream": plan.stream, "progress": plan.progress.positions}
    commit = Commit(**fields, consumed_tables=source.consumed(plan))
    entry = Entry(1, datetime.now(UTC), commit, Metrics())
    return Ledger("balances", exists=True, version=1, transaction=commit.number, entries=(entry,))


def test_a_new_table_begins_with_the_rows_of_the_newest_version(accounts: Path) -> None:
    state = source_of(accounts).look(Ledger("balances"), 1)
    assert state.starts == {ROWS: 3 * VERSION_PLACES, CHANGES: 4 * VERSION_PLACES}
    assert plan_batch(state, None).ranges[CHANGES].span == 0


def test_a_batch_has_whole_versions_with_as_many_rows_as_are_allowed(accounts: Path) -> None:
    source = source_of(accounts)
    ledger = after(source, plan_batch(source.look(Ledger("balances"), 1), None))
    add(accounts, 3, first=4)  # versions 4, 5 and 6 with 5, 6 and 7 rows
    state = source.look(ledger, 1)
    for limit, last in ((1, 4), (5, 4), (11, 5), (12, 5), (18, 6), (None, 6)):
        plan = plan_batch(state, ledger.progress, Bounds(limit))
        assert plan.ranges[CHANGES].end == (last + 1) * VERSION_PLACES, limit
        assert (plan.ranges[ROWS].span, plan.gap) == (0, None)


@pytest.mark.invariant("9.12")
def test_an_older_copy_in_the_place_of_the_table_is_noticed(accounts: Path) -> None:
    source, copy = source_of(accounts), accounts.parent / "copy"
    shutil.copytree(accounts, copy)
    add(accounts, 3, first=4)
    ledger = after(source, plan_batch(source.look(Ledger("balances"), 1), None))
    assert source.look(ledger, 1).end[CHANGES] == 7 * VERSION_PLACES
    shutil.rmtree(accounts)
    shutil.copytree(copy, accounts)
    add(accounts, 5, first=4)
    assert DeltaTable(str(accounts)).version() == 8
    with pytest.raises(SourceError, match="Version 6 of the table that balances reads is another one"):
        source.look(ledger, 1)


def test_a_table_without_change_data_and_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        source_of(tmp_path / "missing").look(None, 1)
    write_deltalake(str(tmp_path / "plain"), pa.table({"id": [1]}))
    with pytest.raises(SourceError, match="keeps no change data"):
        source_of(tmp_path / "plain").look(None, 1)
