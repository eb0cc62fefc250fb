"""The names a declaration may give, and those that are taken: columns of ours that stand beside declared ones."""

import keyword
import re

LONGEST = 200  # a folder, a lock and a partition of that name still fit into a file name
SHAPE = f"names are lower case letters, digits and _, begin with a letter and have at most {LONGEST} characters"
_NAME = re.compile(r"[a-z][a-z0-9_]*")

RECORD = "_record"
"""The column of a merged table that tells the record of each row."""

IN_FEED = ("change", "source_table_id", "source_version", "since_version", "committed_at", "number", "reconciled")
"""Columns of the change feed that stand beside those of the key: no key has these names.

All other columns of ours, and those that a batch makes on its way, begin with an underscore.
"""

_DAGSTER = "arg_dict bool conf config context dict float input input_arg_dict int meta output output_arg_dict str type"
NO_TABLE = {*_DAGSTER.split(), *keyword.kwlist}
"""What Dagster names no asset."""

NO_CHECK = {"accounting_read", "accounting_stale", "batch_can_be_planned", "batches_accounted", "keys_unique"}
NO_CHECK |= {"producer_time", "ranges_contiguous", "rejected_share", "totals"}
"""The checks that every merged table has."""

IN_CATALOG = "duckdb_"
"""How DuckDB's lists of tables and columns begin: one of ours in their place would break SHOW TABLES for all."""


def is_name(text: str) -> bool:
    """Whether a table or a column may have this name, if it is not taken."""
    return bool(_NAME.fullmatch(text)) and len(text) <= LONGEST
