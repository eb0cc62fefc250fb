"""The names a declaration may give, and those that are taken: columns of ours that stand beside declared ones."""

import keyword
import re

LONGEST = 200  # a folder, a lock and a partition of that name still fit into a file name
SHAPE = f"names are lower case letters, digits and _, begin with a letter and have at most {LONGEST} characters"
_NAME = re.compile(r"[a-z][a-z0-9_]*")

ORDER = ("kafka_timestamp", "kafka_partition", "kafka_offset", "base_version")
_RECORD = {"key", "value", "headers", "reason", "detail", "is_late", "is_stale", "newest"}
_BASE_FILE = {"file", "place"}
TAKEN = {*ORDER, *_RECORD, *_BASE_FILE, "change"}
"""For every column of a stream table."""

_FEED = {"source_table_id", "source_version", "since_version", "committed_at", "number", "reconciled"}
TAKEN_IN_KEY = _FEED | {"before", "after", "row", "count"}
TAKEN_IN_ROLLUP = {"stays", "found", "is_gone"}
TAKEN_IN_REFERENCE = {"is_gone"}

_DAGSTER = "arg_dict bool conf config context dict float input input_arg_dict int meta output output_arg_dict str type"
NO_TABLE = {*_DAGSTER.split(), *keyword.kwlist}
"""What Dagster names no asset."""


def is_name(text: str) -> bool:
    """Whether a table or a column may have this name, if it is not taken."""
    return bool(_NAME.fullmatch(text)) and len(text) <= LONGEST
