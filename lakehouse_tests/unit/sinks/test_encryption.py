"""To another machine, a connection is encrypted and the server is verified, unless the URL says otherwise."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.errors import TableError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.certificates import Authority
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.tables.delivered import Target
from lakehouse_tests.helpers.waiting import wait_until

HOST = "db.example.com"


@pytest.fixture
def authority(postgres: Postgres, tmp_path: Path) -> Iterator[Path]:
    """The file of the authority that signed the certificate of the server, which supports TLS meanwhile."""
    authority, folder = Authority(tmp_path / "authority"), postgres.folder / "data"
    owner = folder.stat()
    for file, name in zip(authority.sign(HOST), ("server.crt", "server.key"), strict=True):
        copy = Path(shutil.copy(file, folder / name))
        copy.chmod(0o600)
        os.chown(copy, owner.st_uid, owner.st_gid)
    switch(postgres, "on")
    yield authority.file
    switch(postgres, "off")


def switch(postgres: Postgres, state: str) -> None:
    postgres.run(f"ALTER SYSTEM SET ssl = {state}", "SELECT pg_reload_conf()")
    assert wait_until(lambda: postgres.rows("SHOW ssl") == [(state,)], 30)


def elsewhere(target: Target, options: str = "", host: str = HOST) -> Target:
    """The target by the name of another machine, which has the address of this one."""
    url = f"postgresql://postgres@{host}:{target.server.port}/{target.database}?hostaddr=127.0.0.1{options}"
    settings = Settings(home=target.settings.home, sync=False, sink_urls=json.dumps({"postgres": url}))
    return replace(target, settings=settings)


def test_a_server_of_an_unknown_authority_is_refused(target: Target, authority: Path) -> None:
    assert authority.exists()
    with pytest.raises(TableError, match="certificate verify failed"):
        elsewhere(target).update()


def test_a_server_of_a_trusted_authority_is_used(
    target: Target, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert elsewhere(target).update().rows == 3
    assert elsewhere(target, f"&sslrootcert={authority}").update().kind is None


def test_a_server_with_another_name_is_refused(
    target: Target, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with pytest.raises(TableError, match=f'certificate for "{HOST}" does not match host name "other.example.com"'):
        elsewhere(target, host="other.example.com").update()


def test_a_server_without_encryption_is_used_only_if_the_url_says_so(target: Target) -> None:
    with pytest.raises(TableError, match="server does not support SSL"):
        elsewhere(target).update()
    assert elsewhere(target, "&sslmode=disable").update().rows == 3
