"""What a record says: that its row is stored, that the row of its key is deleted, or that every older row is.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping

from lakehouse.decoding.formats.parser import Change
from lakehouse.decoding.former_keys import require_same_key
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.rules import Rules


def read_change(value: bytes | None, rules: Rules, parts: Mapping[str, bytes | None]) -> Change | None:
    """Parse a record into what it says about the row of its key; ``None`` if it does not belong to the table.

    A tombstone that deletes has no field and no schema, so a condition on these does not exclude it. If the elements of
    an array are rows, the fields are those of the whole record. Raises ``Rejection`` if the record is not valid.
    """
    conditions, delete_rule, truncate_rule = rules.where, rules.deletes, rules.truncates
    if conditions and not all(_takes(where, value, rules, parts) for where in conditions if not where.is_about_value):
        return None
    if rules.has_changes:
        change = rules.parser.read_change(value, rules.fields)
        if change.sides is not None:
            require_same_key(*change.sides, rules.key_ways)
        return change
    if delete_rule and delete_rule.is_tombstone(value):
        return Change({}, deletes=True)
    parsed = rules.parser(value)
    if conditions and not all(where.takes_fields(parsed) for where in conditions if where.is_about_value):
        return None
    is_about_row = rules.rows_from is None  # else each element of an array says what it is
    if is_about_row and truncate_rule and truncate_rule.is_delete(parsed):
        return Change(parsed, is_rowless=True, truncates=True)
    return Change(parsed, deletes=bool(is_about_row and delete_rule and delete_rule.is_delete(parsed)))


def _takes(where: RecordFilter, value: bytes | None, rules: Rules, parts: Mapping[str, bytes | None]) -> bool:
    """Whether a record meets a condition on a header or on its schema, which a tombstone does not have."""
    if where.is_about_schema:
        return value is None or rules.parser.schema_name(value) in where.values
    return where.takes_header(parts.get(where.part))
