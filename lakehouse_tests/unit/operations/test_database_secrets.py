"""A password of the database appears in no error, no matter which characters it has."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from lakehouse.declaration import Column, StreamTable
from lakehouse.errors import LakehouseError
from lakehouse.operations.source_database import open_source
from lakehouse.settings import Settings

psycopg = pytest.importorskip("psycopg")
ITEMS = StreamTable(
    name="items", topic="shop.public.items", doc="d", columns=[Column("id", "BIGINT", "d", required=True)], key=["id"]
)


def failure_of(url: str) -> str:
    with pytest.raises(LakehouseError) as caught, open_source(url, ITEMS, "public.items", ["id"]):
        pytest.fail("it connected")
    assert caught.value.__suppress_context__
    return str(caught.value)


@pytest.mark.parametrize("password", ["first@second", "first/second", "first?second", "first#second", "/second@first"])
def test_a_raw_separator_in_a_password_is_refused_before_anything_connects(password: str) -> None:
    url = f"postgresql://reader:{password}@127.0.0.1:1/shop"
    text = failure_of(url)
    assert "URL of the database cannot be read" in text and "%40" in text
    assert "first" not in text and "second" not in text
    with pytest.raises(ValueError, match="%40") as caught:
        Settings(database_url=SecretStr(url), _env_file=None)
    assert "first" not in str(caught.value) and "second" not in str(caught.value)


@pytest.mark.parametrize("password", ["first%40second", "first%2Fsecond"])
def test_a_message_that_quotes_the_password_is_cleaned(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, **_: Mapping[str, Any]) -> Any:
        quoted_password = psycopg.conninfo.conninfo_to_dict(url)["password"]
        raise psycopg.OperationalError(f'option "{quoted_password}" is wrong')

    monkeypatch.setattr(psycopg, "connect", refuse)
    text = failure_of(f"postgresql://reader:{password}@127.0.0.1:1/shop")
    assert text.startswith('The database refused: option "***" is wrong')


def test_a_url_whose_parts_are_escaped_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []

    def connect(url: str, **_: Any) -> Any:
        urls.append(url)
        raise psycopg.OperationalError("no")

    monkeypatch.setattr(psycopg, "connect", connect)
    for url in (
        "postgresql://r:a%40b@h/shop?sslmode=require",
        "postgresql:///shop?host=/run",
        "postgres://r@[::1]:1/s",
    ):
        failure_of(url)
        assert urls.pop() == url
