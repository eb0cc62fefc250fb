"""The change feed of a table: which table it belongs to, and up to which of its versions it has the changes."""

from http import HTTPStatus

from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import ledger_as_of, ledger_of
from lakehouse.ledger.log import open_version
from lakehouse.query.connections import quoted_name
from lakehouse.serve.database import Database
from lakehouse.serve.problems import RequestError
from lakehouse.serve.snapshots import Snapshot, existing_tables, find_snapshot, require_table
from lakehouse.serve.statements import Statement
from lakehouse.settings import Settings

_VERSION, _TABLE_ID = "source_version", "source_table_id"


def find_feed(settings: Settings, database: Database, name: str, number: int | None) -> tuple[Snapshot, Consumed]:
    """Find a version of the change feed of a table, and the version of the table that it has read.

    ``RequestError`` if the table has no feed, or if nothing was merged into the feed yet.
    """
    require_table(settings, name)
    feed_name = f"{name}_changes"
    if feed_name not in existing_tables(settings):
        raise _without_feed(name, "Log tables have none; of other tables, lakehouse merge creates it.")
    snapshot = find_snapshot(settings, database, feed_name, number)
    ledger = ledger_of(settings, feed_name)
    if ledger.version != snapshot.version.number:
        uri = snapshot.version.uri
        ledger = ledger_as_of(open_version(uri, snapshot.version.number), uri, feed_name)
    if ledger.consumed is None or not {_VERSION, _TABLE_ID} <= {*snapshot.columns}:
        raise _without_feed(name, f"{feed_name} is another table, or has read no version yet.")
    return snapshot, ledger.consumed


def _without_feed(name: str, action: str) -> RequestError:
    return RequestError(HTTPStatus.NOT_FOUND, f"Table {name} has no change feed", where="path", action=action)


def changes_after(condition: Statement, consumed: Consumed, since: int) -> Statement:
    """Return the condition, of changes of the table that the feed follows, after one of its versions."""
    sql = f"{quoted_name(_VERSION)} > ? AND {quoted_name(_TABLE_ID)} = ? AND ({condition.sql})"
    return Statement(sql, [since, consumed.table_id, *condition.values])


def order_of_changes(snapshot: Snapshot) -> list[tuple[str, bool]]:
    """Return the order of changes: by the version that made them, and then a total one."""
    return [(_VERSION, False), *((name, False) for name in snapshot.columns if name != _VERSION)]
