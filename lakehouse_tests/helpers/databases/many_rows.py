"""A database table with many short rows, which change all together."""

from lakehouse.declaration import Column
from lakehouse_tests.helpers.databases.postgres import Postgres

COLUMNS = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("n", "BIGINT", "How often it changed."),
    Column("note", "STRING", "A text that changes with it."),
]


def create_rows(server: Postgres, database: str, count: int) -> None:
    server.run(f"CREATE DATABASE {database}")
    server.run(
        "CREATE TABLE items (id bigint PRIMARY KEY, n bigint, note text)",
        f"INSERT INTO items SELECT i, 0, 'first' FROM generate_series(1, {count}) i",
        database=database,
    )


def change_rows(server: Postgres, database: str, count: int, number: int) -> None:
    """Change each row in one of five transactions; delete some, and add those that the change before deleted."""
    for part in range(5):
        server.run(f"UPDATE items SET n = n + 1, note = md5(note) WHERE id % 5 = {part}", database=database)
    server.run(
        f"DELETE FROM items WHERE id % 97 = {number}",
        f"INSERT INTO items SELECT i, 0, 'back' FROM generate_series(1, {count}) i WHERE i % 97 = {number - 1}"
        " ON CONFLICT DO NOTHING",
        database=database,
    )
