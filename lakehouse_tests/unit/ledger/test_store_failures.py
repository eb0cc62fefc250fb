"""A store that does not respond, a store that denies access and a damaged table are errors with their own remedies."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError, StoreRefusedError, StoreUnreachableError, TableDamagedError, TableError
from lakehouse.ledger import log
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.table_failures import disk_failure, log_failures
from lakehouse.ledger.versions import count_rows
from lakehouse.query import table_names
from lakehouse.settings import Settings
from lakehouse.settings import store as store_options
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.helpers.tables.logs import WrittenTable

Store = Callable[[], AbstractContextManager[str]]
STORES: dict[str, tuple[Store, type[TableError], str]] = {
    "closed port": (stores.unreachable_store, StoreUnreachableError, "Connection refused"),
    "no answer": (stores.hanging, StoreUnreachableError, "timed out"),
    "busy": (lambda: stores.answering(503, "SlowDown"), StoreUnreachableError, "503 Service Unavailable"),
    "broken": (lambda: stores.answering(500, "InternalError"), StoreUnreachableError, "500 Internal Server Error"),
    "access denied": (lambda: stores.answering(403, "AccessDenied"), StoreRefusedError, "AccessDenied"),
    "expired credentials": (lambda: stores.answering(400, "ExpiredToken"), StoreRefusedError, "ExpiredToken"),
    "unknown key": (lambda: stores.answering(403, "InvalidAccessKeyId"), StoreRefusedError, "InvalidAccessKeyId"),
    "wrong secret": (lambda: stores.answering(403, "SignatureDoesNotMatch"), StoreRefusedError, "SignatureDoes"),
}
REMEDIES = {
    StoreUnreachableError: "Run it again when the store responds",
    StoreRefusedError: "Correct the permissions or renew the credentials",
    TableDamagedError: "Restore the table from a backup",
}


def raised_by(read: Callable[[], object]) -> LakehouseError:
    with pytest.raises(LakehouseError) as raised:
        read()
    assert "away" not in str(raised.value)  # moving a table away loses records that its topic no longer holds
    assert len(str(raised.value).splitlines()) == 1
    return raised.value


@pytest.mark.timeout(60)  # by default deltalake waits three minutes for a store that hangs
@pytest.mark.parametrize("case", STORES)
def test_a_failing_store_does_not_mean_a_damaged_table(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_options, "_PATIENCE", {**store_options._PATIENCE, "timeout": "1s", "retry_timeout": "1s"})
    store, error_type, message = STORES[case]
    with store() as root:
        error = raised_by(lambda: read_ledger(f"{root}/t", "t"))
    assert type(error) is error_type
    assert re.search(f"{message}.*s3://bucket/t.*{REMEDIES[error_type]}", str(error))


READS: dict[str, Callable[[str], object]] = {
    "a query": lambda root: table_names(Settings(tables=root, _env_file=None), ["t"]),
    "the files that maintenance counts": lambda root: log.active_files(f"{root}/t"),
    "the history that maintenance reads": lambda root: log.read_history(f"{root}/t"),
}


@pytest.mark.parametrize("case", READS)
def test_every_reader_gets_the_same_error_of_the_store(case: str) -> None:
    with stores.unreachable_store() as root:
        error = raised_by(lambda: READS[case](root))
    assert type(error) is StoreUnreachableError


def test_a_missing_bucket_is_a_wrong_place_and_no_damage() -> None:
    with stores.answering(404, "NoSuchBucket") as root:
        error = raised_by(lambda: read_ledger(f"{root}/t", "t"))
    assert type(error) is TableError
    assert re.search("NoSuchBucket.*LAKEHOUSE_TABLES names the right place", str(error))


def test_the_signature_of_a_request_is_not_repeated() -> None:
    with pytest.raises(StoreRefusedError) as raised, log_failures("abfss://t"):
        raise OSError("Error performing GET https://account/t?sv=1&sig=SECRET in 5ms\n  \x1b[31m↳\x1b[0m 403 Forbidden")
    assert "SECRET" not in str(raised.value)
    assert "GET https://account/t: 403 Forbidden" in str(raised.value)


def test_a_table_in_an_object_store_is_read_with_its_restores(tmp_path: Path) -> None:
    table = WrittenTable.create(tmp_path / "t")
    table.batches(3)
    table.restore_by_time(2)
    with stores.serving(tmp_path) as root:
        ledger = read_ledger(f"{root}/t", "t")
        assert (ledger.progress, ledger.undone_numbers, count_rows(f"{root}/t")) == (
            table.ledger.progress,
            frozenset({3}),
            2,
        )
        assert not read_ledger(f"{root}/another", "another").exists


def truncate(table: WrittenTable, version: int) -> None:
    file = table.log_file(version)
    file.write_bytes(file.read_bytes()[:40])


def delete_checkpoint(table: WrittenTable) -> None:
    table.clean(2)
    for part in table.folder.glob("_delta_log/*.parquet"):
        part.unlink()


DAMAGES: dict[str, Callable[[WrittenTable], object]] = {
    "a truncated commit": lambda table: truncate(table, 2),
    "a missing commit": lambda table: table.log_file(2).unlink(),
    "a missing checkpoint": delete_checkpoint,
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_table_is_reported_with_the_advice_to_restore_a_backup(tmp_path: Path, case: str) -> None:
    table = WrittenTable.create(tmp_path / "t")
    table.batches(3)
    DAMAGES[case](table)
    error = raised_by(lambda: table.ledger)
    assert type(error) is TableDamagedError
    assert re.search(f"log is damaged and cannot be read.*{REMEDIES[TableDamagedError]}", str(error))


def test_a_log_without_permissions_is_not_damaged(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can become another user")
    table = WrittenTable.create(tmp_path / "t")
    table.batches(1)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == 0 and folder.name.startswith("pytest-"):
            folder.chmod(0o755)
    table.log_file(1).chmod(0)
    os.seteuid(65534)
    try:
        error = raised_by(lambda: table.ledger)
    finally:
        os.seteuid(0)
    assert type(error) is StoreRefusedError


@pytest.mark.parametrize(
    ("number", "error_type", "message"),
    [
        (errno.ENOSPC, TableError, "No space left on device"),
        (errno.EROFS, TableError, "read-only"),
        (errno.EACCES, StoreRefusedError, "Access to the table's files is denied"),
        (errno.ETIMEDOUT, StoreUnreachableError, "cannot be reached"),
        (errno.EIO, TableError, "Input/output error"),
    ],
)
def test_an_error_of_the_disk_is_recognised_by_its_number(
    number: int, error_type: type[TableError], message: str
) -> None:
    error = disk_failure(OSError(number, os.strerror(number), "/tables/t"), "/tables/t")
    assert type(error) is error_type
    assert message in str(error)


def test_the_elapsed_time_is_left_out_so_that_errors_are_equal() -> None:
    def message(elapsed: str) -> str:
        with pytest.raises(StoreUnreachableError) as raised, log_failures("s3://t"):
            raise OSError(
                f"Generic S3 error: Error performing GET http://h/b in {elapsed}, after 3 retries, max_retries: 10, "
                f"retry_timeout: 20s - HTTP error: error sending request: Connection refused in {elapsed}"
            )
        return str(raised.value)

    assert message("537.206607ms") == message("1.2s") == message("980µs")
    assert "after 3 retries" in message("1s")


PROGRAM = """
from lakehouse.ledger.log import is_table
from lakehouse.errors import LakehouseError
try:
    is_table("s3://bucket/t")
except LakehouseError as error:
    print(error)
"""


def test_log_lines_of_the_store_client_are_not_printed() -> None:
    with stores.answering(403, "AccessDenied"):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RUST_LOG"))}
        env |= {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        process = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    assert process.stdout.startswith("Access to the table's files is denied")
    assert process.stderr == ""
