"""What a record says: that its row is stored, that the row of its key is deleted, or that every older row is.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from lakehouse.decoding.deletes import DeleteRule
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.format import Change, Parser


def read_change(
    value: bytes | None,
    parser: Parser,
    fields: tuple[Field, ...],
    delete_rule: DeleteRule | None,
    truncate_rule: DeleteRule | None = None,
) -> Change:
    """Parse a record into what it says about the row of its key; raises ``Rejection`` if it is not valid."""
    if parser.has_changes:
        return parser.read_change(value, fields)
    if delete_rule and delete_rule.is_tombstone(value):
        return Change({}, deletes=True)
    parsed = parser(value)
    if truncate_rule and truncate_rule.is_delete(parsed):
        return Change(parsed, is_rowless=True, truncates=True)
    return Change(parsed, deletes=bool(delete_rule and delete_rule.is_delete(parsed)))
