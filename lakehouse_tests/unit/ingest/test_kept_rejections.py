"""The merged table knows which rejected records it was committed with: without them, records are in no table."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehouse.errors import LedgerError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.rejections import count_rejected, find_lost_rejections
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.operations.rejections import list_rejected
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.logs import WrittenTable

NAME = temperatures.rejected_name


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, _env_file=None)


@pytest.fixture
def rejected(settings: Settings) -> WrittenTable:
    """Rejected records of two batches: the second is version 2."""
    table = WrittenTable.create(Path(settings.table_uri(NAME)), NAME)
    table.merge(1, kind="rejected")
    table.merge(2, kind="rejected")
    return table


def merged_with(version: Consumed | None) -> Ledger:
    commit = Commit(kind="batch", number=1, attempt="a", table_version=0, rejected_table=version)
    metrics = {"version": 1, "committed_at": None, "metrics": None}
    return Ledger("merged", exists=True, transaction=1, entries=(Entry(commit=commit, **metrics),))  # type: ignore[arg-type]


def delete_folder(rejected: WrittenTable) -> None:
    shutil.rmtree(rejected.folder)


def create_again(rejected: WrittenTable) -> None:
    delete_folder(rejected)
    WrittenTable.create(rejected.folder, NAME).batches(3)


def restore_backup(rejected: WrittenTable) -> None:
    rejected.log_file(2).unlink()


def restore_backup_and_go_on(rejected: WrittenTable) -> None:
    restore_backup(rejected)
    rejected.write(7)


def restore_first_batch(rejected: WrittenTable) -> None:
    rejected.restore(1)


def restore_first_batch_by_time(rejected: WrittenTable) -> None:
    rejected.restore_by_time(1)
    rejected.merge(3, kind="rejected")


@pytest.mark.invariant("8.18")
@pytest.mark.parametrize(
    "lose",
    [
        delete_folder,
        create_again,
        restore_backup,
        restore_backup_and_go_on,
        restore_first_batch,
        restore_first_batch_by_time,
    ],
)
def test_rejected_records_that_are_gone_are_missed(
    settings: Settings, rejected: WrittenTable, lose: Callable[[WrittenTable], None]
) -> None:
    merged = merged_with(version_to_consume(rejected.ledger))
    assert find_lost_rejections(settings, temperatures, merged) is None
    lose(rejected)
    error = find_lost_rejections(settings, temperatures, merged)
    assert "version 2 of temperatures_rejected, which is gone" in str(error)
    assert "lakehouse replay temperatures" in str(error)
    assert count_rejected(settings, temperatures, merged) is None


def go_on(rejected: WrittenTable) -> None:
    rejected.merge(3, kind="rejected")


def undo_marks(rejected: WrittenTable) -> None:
    go_on(rejected)
    rejected.restore(2)


def erase_rows(rejected: WrittenTable) -> None:
    rejected.table.delete("number = 1")


def expire_log(rejected: WrittenTable) -> None:
    go_on(rejected)
    rejected.clean(before=3)


@pytest.mark.invariant("8.18")
@pytest.mark.parametrize("change", [go_on, undo_marks, erase_rows, expire_log])
def test_rejected_records_that_are_later_than_the_merged_rows_are_not_missed(
    settings: Settings, rejected: WrittenTable, change: Callable[[WrittenTable], None]
) -> None:
    merged = merged_with(version_to_consume(rejected.ledger))
    change(rejected)
    assert find_lost_rejections(settings, temperatures, merged) is None


@pytest.mark.invariant("8.18")
def test_a_table_that_no_batch_of_this_version_has_merged_misses_nothing(settings: Settings) -> None:
    assert find_lost_rejections(settings, temperatures, merged_with(None)) is None
    assert find_lost_rejections(settings, temperatures, Ledger("merged")) is None


@pytest.mark.invariant("8.18")
def test_lost_rejected_records_are_not_listed_as_none(settings: Settings, rejected: WrittenTable) -> None:
    merged = WrittenTable.create(Path(settings.table_uri(temperatures.name)), temperatures.name)
    merged.merge(1)
    named_version = version_to_consume(rejected.ledger).model_dump()

    def name_version(info: dict[str, str]) -> dict[str, str]:
        commit = Commit.model_validate_json(info["userMetadata"]).with_fields(rejected_table=named_version)
        return {**info, "userMetadata": commit.model_dump_json()}

    merged.edit(1, name_version)
    delete_folder(rejected)
    with pytest.raises(LedgerError, match="rejected records are missing"):
        list_rejected(settings, temperatures)
