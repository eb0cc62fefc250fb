"""Which names a declaration may use, and which ones are reserved: those of columns that the project adds itself."""

import keyword
import re
from collections.abc import Iterator

from lakehouse.decoding.column_types import Problem

MAX_LENGTH = 200  # a folder, a lock and a partition with such a name still fit into a file name
SHAPE = f"a name has at most {MAX_LENGTH} lower-case letters, digits and _, and starts with a letter"
_NAME = re.compile(r"[a-z][a-z0-9_]*")

RECORD = "_record"
"""The column of a merged table that identifies the record of each row."""

FEED_COLUMNS = ("change", "source_table_id", "source_version", "since_version", "committed_at", "number", "reconciled")
"""Columns of the change feed, next to those of the key: no key column has one of these names.

All other columns that the project adds, and those of intermediate steps of a batch, start with an underscore.
"""

_DAGSTER = "arg_dict bool conf config context dict float input input_arg_dict int meta output output_arg_dict str type"
RESERVED_TABLES = {*_DAGSTER.split(), *keyword.kwlist}
"""Names that Dagster accepts for no asset."""

NO_CHECK = {"records_accounted", "rows_accounted", "batch_can_be_planned", "batches_accounted", "keys_unique"}
NO_CHECK |= {
    "producer_time",
    "ranges_contiguous",
    "rejected_share",
    "versions_decide",
    "totals_match",
    "records_fresh",
    "lag_within_limit",
    "nothing_held_back",
}
"""The names of the checks that a merged table has or can have."""

DUCKDB_PREFIX = "duckdb_"
"""The prefix of DuckDB's lists of tables and columns: a table of that name would break SHOW TABLES for all tables."""


def is_name(text: str) -> bool:
    """Whether a table or a column may have this name, if the name is free."""
    return bool(_NAME.fullmatch(text)) and len(text) <= MAX_LENGTH


def name_problems(name: str, subject: str = "the name") -> Iterator[Problem]:
    """What is wrong with the name of a table; ``subject`` is how the message calls it."""
    if not is_name(name):
        yield f"{subject} is not allowed: {SHAPE}", "Choose another name."
    if name in RESERVED_TABLES:
        yield f"{subject} is reserved by Dagster", "Choose another name."
    if name.startswith(DUCKDB_PREFIX):
        message = f"{subject} is reserved: DuckDB lists tables with {DUCKDB_PREFIX}* functions of its own"
        yield message, "Choose another name."


def column_name(source: str) -> str | None:
    """The name of a column for a field; ``None`` if the name of the field cannot become one."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", source)
    name = source if is_name(source) else re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    if name in FEED_COLUMNS or name.endswith(("_before", "_after")):  # it may be in the key, which the feed contains
        name = f"{name}_"
    return name if is_name(name) else None
