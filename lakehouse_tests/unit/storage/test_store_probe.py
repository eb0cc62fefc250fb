"""A store is written only after it has shown that it honours conditions; no table in it has a lock file."""

import re
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import ObjectStore

from lakehouse.errors import LakehouseError, SetupError, StoreRefusedError
from lakehouse.settings.store import Store, declare_access, keep_copies_in
from lakehouse.storage.lock import table_lock
from lakehouse.storage.store_probe import probe_store
from lakehouse_tests.helpers.tables import stores
from lakehouse_tests.helpers.tables.azurite import AnyStore


@pytest.fixture
def root(store: AnyStore, tmp_path: Path) -> str:
    keep_copies_in(tmp_path / "copies")
    return f"{store.root}/{tmp_path.name}"


def objects_in(root: str) -> list[str]:
    return [file["path"] for page in obstore.list(Store(root).objects()) for file in page]


def puts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the objects that are written from now on."""
    names, put = list[str](), obstore.put

    def put_and_record(store: object, name: str, *arguments: object, **options: object) -> object:
        names.append(name)
        return put(store, name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(obstore, "put", put_and_record)
    return names


@pytest.mark.invariant("11.2")
def test_a_table_in_a_store_has_no_lock_but_its_store_is_probed_once(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = puts(monkeypatch)
    for _ in range(2):
        with table_lock(f"{root}/t", "t"):
            pass
    assert len(names) == 2 + (Store(root).kind == "azure") and len({name.split("/")[0] for name in names}) == 1
    assert Store(f"{root}/t").lock is None and objects_in(root) == []


@pytest.mark.invariant("11.12")
def test_a_store_that_ignores_conditions_is_refused_unless_there_is_one_writer(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, name, content, **_: put(store, name, content))
    with (
        pytest.raises(SetupError, match="ignores If-None-Match.*LAKEHOUSE_STORE_WRITERS=one"),
        table_lock(f"{root}/t", "t"),
    ):
        pass
    bucket = Store(root).bucket or ""
    declare_access(bucket, {"writers": "one"})
    try:
        with table_lock(f"{root}/t", "t"):
            pass
    finally:
        declare_access(bucket, {})
    with pytest.raises(SetupError, match="ignores If-None-Match"), table_lock(f"{root}/t", "t"):
        pass
    assert objects_in(root) == []


def test_keys_that_may_only_read_are_refused(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    with pytest.raises(StoreRefusedError, match="SignatureDoesNotMatch|AuthorizationFailure"):
        probe_store(root)


def test_a_missing_bucket_is_named_and_not_created(store: AnyStore) -> None:
    root = store.root.replace("bucket", "none")
    for _ in range(2):
        with pytest.raises(LakehouseError, match=f"(NoSuchBucket|ContainerNotFound).*{root}"):
            probe_store(root)


@pytest.mark.invariant("11.12")
@pytest.mark.parametrize("store", [pytest.param("azure", marks=pytest.mark.slow)], indirect=True)
def test_an_account_with_folders_is_for_one_writer(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a hierarchical namespace, which no server of the tests has, an object cannot have the name of a folder."""
    put, names = obstore.put, list[str]()

    def put_unless_folder(objects: ObjectStore, name: str, *arguments: Any, **options: Any) -> object:
        if any(stored_name.startswith(f"{name}/") for stored_name in names):
            raise AlreadyExistsError("The specified path is a directory.")
        names.append(name)
        return put(objects, name, *arguments, **options)

    monkeypatch.setattr(obstore, "put", put_unless_folder)
    with pytest.raises(SetupError, match="hierarchical namespace.*LAKEHOUSE_STORE_WRITERS=one"):
        probe_store(root)


def test_a_store_that_does_not_answer_is_named_in_time() -> None:
    with (
        stores.unreachable_store() as address,
        pytest.raises(LakehouseError, match="The table store cannot be reached"),
    ):
        probe_store(address)


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_the_keys_of_a_profile_serve_every_reader(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text("[lake]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "lake")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    probe_store(root)
    options = Store(root).options or {}
    assert (options["aws_access_key_id"], options["aws_secret_access_key"]) == ("key", "secret")
    assert not re.search("secret", str(objects_in(root)))
