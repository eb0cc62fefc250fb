"""``lakehouse new-table`` in tests: two orders, and what the command declares."""

from collections.abc import Sequence

import pytest

from lakehouse.cli import main
from lakehouse.declaration import StreamTable
from lakehouse.discovery import _declared_in, declared_tables
from lakehouse.kafka import Record
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import lakehouse_says

SHOP = 'Ann\'s "first"'
ORDERS: list[dict[str, object]] = [
    {"orderId": n, "at": f"2026-01-0{n}T10:00:00Z", "shop": SHOP, "price": n / 2, "items": []} for n in (1, 2)
]


def new_table(*arguments: str, code: int = main.DONE) -> str:
    """The words that ``new-table`` prints before it ends with this exit code."""
    result = lakehouse_says("new-table", *arguments)
    assert result.code == code, result
    return " ".join(f"{result.out} {result.err}".replace("│", " ").split())


def declared_table(name: str) -> StreamTable:
    _declared_in.cache_clear()  # as in another process, which reads the folder again
    return {table.name: table for table in declared_tables(Settings.load())}[name]


def new_table_from_topic(
    monkeypatch: pytest.MonkeyPatch,
    *values: bytes | None,
    condition: Sequence[str] = (),
    key: bytes | None = None,
    code: int = main.DONE,
) -> str:
    """The same for a topic with these values, which are read from no broker."""
    records = [Record(0, offset, 0, key, value) for offset, value in enumerate(values)]
    monkeypatch.setattr("lakehouse.kafka.newest_records", lambda *_: records)
    return new_table("orders", "--from-topic", "orders", *condition, code=code)
