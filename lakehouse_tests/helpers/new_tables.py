"""``lakehouse new-table`` in tests: two orders, and what the command declares."""

from lakehouse.cli import main
from lakehouse.declaration import StreamTable
from lakehouse.discovery import _declared_in, declared_tables
from lakehouse.settings import Settings

SHOP = 'Ann\'s "first"'
ORDERS: list[dict[str, object]] = [
    {"orderId": n, "at": f"2026-01-0{n}T10:00:00Z", "shop": SHOP, "price": n / 2, "items": []} for n in (1, 2)
]


def new_table(*arguments: str) -> int:
    return main.run(["new-table", *arguments])


def declared_table(name: str) -> StreamTable:
    _declared_in.cache_clear()  # as in another process, which reads the folder again
    return {table.name: table for table in declared_tables(Settings.load())}[name]
