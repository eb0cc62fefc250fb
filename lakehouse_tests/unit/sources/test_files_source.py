"""Files of which others have a hand: a second run that numbers them, and people who name and change them."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

from lakehouse.declaration import Column, Files, StreamTable
from lakehouse.decoding.files.reader import FileForm
from lakehouse.errors import ReadLossError, SourceError, printable
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import FILE_PLACES
from lakehouse.settings import Settings
from lakehouse.sources.files import source as files_source
from lakehouse.sources.files.folder import read_file_log
from lakehouse.sources.files.listing import Listing, facts_of, list_files
from lakehouse.sources.files.read import _reader
from lakehouse.sources.files.source import FilesSource

NEW_TABLE = Ledger("lines")


@pytest.fixture
def source(tmp_path: Path) -> FilesSource:
    (tmp_path / "in").mkdir()
    files = Files(str(tmp_path / "in"), settle=timedelta(0))
    columns = [Column("id", "INT", "Number of the line.", required=True)]
    table = StreamTable(name="lines", doc="Lines of files.", columns=columns, key=["id"], source=files)
    return FilesSource(Settings(home=tmp_path, _env_file=None), table, files)


def arrive(source: FilesSource, name: str) -> None:
    Path(source.files.folder, name).write_text('{"id": 1}\n')


def number(source: FilesSource, name: str) -> None:
    """Another run gives a file the next number."""
    facts, log = facts_of(source.files.folder, name), read_file_log(source.settings, source.table)
    columns = {
        "number": pa.array([log.count]),
        "path": pa.array([name]),
        "size": pa.array([facts.size]),
        "modified": pa.array([facts.modified], pa.timestamp("us", "UTC")),
        "seen": pa.array([facts.modified], pa.timestamp("us", "UTC")),
        "hashes": pa.array([[""]]),
    }
    rows = pa.table(columns)
    write_deltalake(source.settings.table_uri(source.table.files_name), rows, mode="append")


@pytest.fixture
def after_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Do something once, right after the next listing of the folder."""

    def plan_deed(deed: Callable[[], None]) -> None:
        deeds = [deed]

        def list_and_do(folder: str, files: Files) -> Listing:
            listing = list_files(folder, files)
            while deeds:
                deeds.pop()()
            return listing

        monkeypatch.setattr(files_source, "list_files", list_and_do)

    return plan_deed


@pytest.mark.invariant("9.10", "9.11")
def test_a_file_that_another_run_numbers_after_the_listing_is_not_removed(source, after_listing) -> None:
    arrive(source, "0.json")
    number(source, "0.json")

    def other_run() -> None:
        arrive(source, "1.json")
        number(source, "1.json")

    after_listing(other_run)
    state = source.read_state(NEW_TABLE, 1)
    assert (state.removed, state.end) == ({}, {0: FILE_PLACES})
    assert source.read_state(NEW_TABLE, 1).end == {0: 2 * FILE_PLACES}


@pytest.mark.invariant("9.10", "9.11")
def test_a_file_that_another_run_numbers_while_a_run_reads_new_files_is_not_removed(source, monkeypatch) -> None:
    arrive(source, "0.json")

    def number_both(*_: Any) -> dict[str, str]:
        number(source, "0.json")
        arrive(source, "1.json")
        number(source, "1.json")
        return {}

    monkeypatch.setattr(files_source, "number_files", number_both)
    state = source.register_state(SimpleNamespace(run="a run"), NEW_TABLE, 1)
    assert (state.removed, state.end) == ({}, {0: 2 * FILE_PLACES})


def test_a_file_that_was_removed_is_still_a_loss(source) -> None:
    arrive(source, "0.json")
    number(source, "0.json")
    Path(source.files.folder, "0.json").unlink()
    assert source.read_state(NEW_TABLE, 1).removed == {0: "0.json"}
    assert source.register_state(SimpleNamespace(run="a run"), NEW_TABLE, 1).removed == {0: "0.json"}


@pytest.mark.invariant("4.1")
def test_a_later_file_is_never_older_also_if_the_clock_is_set_back(source) -> None:
    assert read_file_log(source.settings, source.table).next_time(5) == 5
    arrive(source, "0.json")
    number(source, "0.json")
    log = read_file_log(source.settings, source.table)
    assert log.last_seen == facts_of(source.files.folder, "0.json").modified
    assert (log.next_time(5), log.next_time(log.last_seen + 1)) == (log.last_seen, log.last_seen + 1)


HOSTILE_NAMES = ["a\nb.json", "a: b.json", "FileUnreadableError: file 7: no.json", "FileChangedError: file 7: no.json"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.invariant("13.5")
def test_a_file_that_changed_is_named_and_gets_a_new_number_with_any_name(source, name) -> None:
    arrive(source, name)
    number(source, name)
    part = {"number": 0, "path": name, "seen": None, "hashes": ["other"], "first": 0, "chunks": None}
    with pytest.raises(ReadLossError) as raised, source.failures(SimpleNamespace(stream="in"), "lakehouse merge lines"):
        fail_in_spark(source, part)
    assert f"File {printable(name)} changed while it was read" in str(raised.value)
    assert list(source._list().unnumbered) == [name]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.invariant("13.5")
def test_a_file_that_cannot_be_read_is_named_with_any_name(source, name) -> None:
    arrive(source, name)
    number(source, name)
    Path(source.files.folder, name).unlink()
    Path(source.files.folder, name).mkdir()
    part = {"number": 0, "path": name, "seen": None, "hashes": [""], "first": 0, "chunks": None}
    with pytest.raises(SourceError) as raised, source.failures(SimpleNamespace(stream="in"), "lakehouse merge lines"):
        fail_in_spark(source, part)
    assert f"File {printable(name)} cannot be read: Is a directory" in str(raised.value)


def fail_in_spark(source: FilesSource, part: dict[str, Any]) -> None:
    """Read a part of a file as a worker does; Spark passes an error on as text."""
    try:
        list(_reader(source.files.folder, FileForm(), with_names=False)(part))
    except Exception as error:
        message = f"Traceback ...\n{type(error).__module__}.{type(error).__name__}: {error}\n"
        raise PySparkException(message) from None
