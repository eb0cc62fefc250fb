"""A store that does not answer, one that lets nobody in and a damaged table are three errors, each with its way on."""

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
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.table_failures import disk_failure, log_failures
from lakehouse.query import table_names
from lakehouse.settings import Settings
from lakehouse.settings import store as store_options
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.helpers.tables.logs import Written

Store = Callable[[], AbstractContextManager[str]]
STORES: dict[str, tuple[Store, type[TableError], str]] = {
    "closed port": (stores.closed, StoreUnreachableError, "Connection refused"),
    "no answer": (stores.hanging, StoreUnreachableError, "timed out"),
    "busy": (lambda: stores.answering(503, "SlowDown"), StoreUnreachableError, "503 Service Unavailable"),
    "broken": (lambda: stores.answering(500, "InternalError"), StoreUnreachableError, "500 Internal Server Error"),
    "access denied": (lambda: stores.answering(403, "AccessDenied"), StoreRefusedError, "AccessDenied"),
    "expired credentials": (lambda: stores.answering(400, "ExpiredToken"), StoreRefusedError, "ExpiredToken"),
    "unknown key": (lambda: stores.answering(403, "InvalidAccessKeyId"), StoreRefusedError, "InvalidAccessKeyId"),
    "wrong secret": (lambda: stores.answering(403, "SignatureDoesNotMatch"), StoreRefusedError, "SignatureDoes"),
}
WAYS_ON = {
    StoreUnreachableError: "Run it again when the store answers",
    StoreRefusedError: "Correct the permissions, or renew the credentials",
    TableDamagedError: "Bring it back from a backup",
}


def told(look: Callable[[], object]) -> LakehouseError:
    with pytest.raises(LakehouseError) as caught:
        look()
    assert "away" not in str(caught.value)  # to move a table away loses what its topic no longer holds
    assert len(str(caught.value).splitlines()) == 1
    return caught.value


@pytest.mark.timeout(60)  # by itself deltalake asks a store that hangs for three minutes
@pytest.mark.parametrize("how", STORES)
def test_a_store_that_does_not_serve_says_nothing_of_the_table(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_options, "_PATIENCE", {**store_options._PATIENCE, "timeout": "1s", "retry_timeout": "1s"})
    store, kind, said = STORES[how]
    with store() as root:
        error = told(lambda: read_ledger(f"{root}/t", "t"))
    assert type(error) is kind
    assert re.search(f"{said}.*s3://bucket/t.*{WAYS_ON[kind]}", str(error))


LOOKS: dict[str, Callable[[str], object]] = {
    "a query": lambda root: table_names(Settings(tables=root, _env_file=None), ["t"]),
    "the files maintenance counts": lambda root: log.active_files(f"{root}/t"),
    "the history maintenance reads": lambda root: log.read_history(f"{root}/t"),
}


@pytest.mark.parametrize("how", LOOKS)
def test_whoever_looks_is_told_the_same_of_the_store(how: str) -> None:
    with stores.closed() as root:
        error = told(lambda: LOOKS[how](root))
    assert type(error) is StoreUnreachableError


def test_a_bucket_that_is_not_there_is_a_wrong_place_and_no_damage() -> None:
    with stores.answering(404, "NoSuchBucket") as root:
        error = told(lambda: read_ledger(f"{root}/t", "t"))
    assert type(error) is TableError
    assert re.search("NoSuchBucket.*LAKEHOUSE_TABLES names the right place", str(error))


def test_what_a_store_is_asked_for_is_not_repeated_with_its_signature() -> None:
    with pytest.raises(StoreRefusedError) as caught, log_failures("abfss://t"):
        raise OSError("Error performing GET https://account/t?sv=1&sig=SECRET in 5ms\n  \x1b[31m↳\x1b[0m 403 Forbidden")
    assert "SECRET" not in str(caught.value)
    assert "GET https://account/t: 403 Forbidden" in str(caught.value)


def test_a_table_in_an_object_store_is_read_and_its_restores_are_told(tmp_path: Path) -> None:
    table = Written.create(tmp_path / "t")
    table.batches(3)
    table.restore_by_time(2)
    with stores.serving(tmp_path) as root:
        ledger = read_ledger(f"{root}/t", "t")
        assert (ledger.progress, ledger.undone, count_rows(f"{root}/t")) == (table.ledger.progress, frozenset({3}), 2)
        assert not read_ledger(f"{root}/another", "another").exists


def cut(table: Written, version: int) -> None:
    file = table.log_file(version)
    file.write_bytes(file.read_bytes()[:40])


def without_its_checkpoint(table: Written) -> None:
    table.clean(2)
    for part in table.folder.glob("_delta_log/*.parquet"):
        part.unlink()


DAMAGES: dict[str, Callable[[Written], object]] = {
    "a commit cut short": lambda table: cut(table, 2),
    "a commit missing": lambda table: table.log_file(2).unlink(),
    "a checkpoint missing": without_its_checkpoint,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_what_is_damaged_says_so_and_asks_for_a_backup(tmp_path: Path, how: str) -> None:
    table = Written.create(tmp_path / "t")
    table.batches(3)
    DAMAGES[how](table)
    error = told(lambda: table.ledger)
    assert type(error) is TableDamagedError
    assert re.search(f"log cannot be read, it is damaged.*{WAYS_ON[TableDamagedError]}", str(error))


def test_a_log_that_may_not_be_read_is_not_damaged(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can become another user")
    table = Written.create(tmp_path / "t")
    table.batches(1)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == 0 and folder.name.startswith("pytest-"):
            folder.chmod(0o755)
    table.log_file(1).chmod(0)
    os.seteuid(65534)
    try:
        error = told(lambda: table.ledger)
    finally:
        os.seteuid(0)
    assert type(error) is StoreRefusedError


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.ENOSPC, TableError, "No space left on device"),
        (errno.EROFS, TableError, "read-only"),
        (errno.EACCES, StoreRefusedError, "may not be read or written"),
        (errno.ETIMEDOUT, StoreUnreachableError, "cannot be reached"),
        (errno.EIO, TableError, "Input/output error"),
    ],
)
def test_the_disk_is_understood_by_the_number_of_its_error(number: int, kind: type[TableError], said: str) -> None:
    error = disk_failure(OSError(number, os.strerror(number), "/tables/t"), "/tables/t")
    assert type(error) is kind
    assert said in str(error)


def test_how_long_a_store_was_asked_is_not_told_since_it_is_never_the_same() -> None:
    def said(elapsed: str) -> str:
        with pytest.raises(StoreUnreachableError) as caught, log_failures("s3://t"):
            raise OSError(
                f"Generic S3 error: Error performing GET http://h/b in {elapsed}, after 3 retries, max_retries: 10, "
                f"retry_timeout: 20s - HTTP error: error sending request: Connection refused in {elapsed}"
            )
        return str(caught.value)

    assert said("537.206607ms") == said("1.2s") == said("980µs")
    assert "after 3 retries" in said("1s")


LOOK = """
from lakehouse.ledger.log import is_table
from lakehouse.errors import LakehouseError
try:
    is_table("s3://bucket/t")
except LakehouseError as error:
    print(error)
"""


def test_what_the_client_of_a_store_logs_of_its_attempts_is_not_printed() -> None:
    with stores.answering(403, "AccessDenied"):
        told = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RUST_LOG"))}
        told |= {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_SERVICE_ENDPOINT": os.environ["AWS_ENDPOINT_URL"]}
        done = subprocess.run([sys.executable, "-c", LOOK], env=told, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("The table's files may not be read")
    assert done.stderr == ""
