"""Detects a log entry with fewer files than its commit counted: cut after a whole line, it is still valid JSON."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

Action = dict[str, Any]
# Spark's Delta counts files of changes separately, deltalake together with the others
_COUNTERS: Final = (
    (("numTargetFilesAdded", "numAddedFiles"), ("add",)),
    (("numTargetChangeFilesAdded", "numAddedChangeFiles"), ("cdc",)),
    (("num_target_files_added", "num_added_files"), ("add", "cdc")),
    (("numTargetFilesRemoved", "numRemovedFiles", "num_target_files_removed", "num_removed_files"), ("remove",)),
)


def is_cut(actions: Sequence[Action]) -> bool:
    """Whether an entry names fewer files, or files with fewer rows, than its commit counted.

    Checks only lakehouse commits, since other programs may count differently. An entry may name more files
    than counted.
    """
    from lakehouse.ledger.commit_infos import metadata_of  # noqa: PLC0415 - pydantic is slow, and a query needs none

    kinds = Counter(next(iter(action), "") for action in actions)
    info: Action = next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
    if metadata_of(info) is None:
        return False
    counters = info.get("operationMetrics") or {}
    rows = _count(counters, "numOutputRows") if info.get("operation") == "WRITE" else 0
    has_too_few_files = any(
        _count(counters, name) > sum(kinds[kind] for kind in of_kinds)
        for names, of_kinds in _COUNTERS
        for name in names
    )
    return has_too_few_files or _has_too_few_rows(actions, rows)


def _count(counters: Mapping[str, Any], name: str) -> int:
    return int(counters.get(name, 0))


def _has_too_few_rows(actions: Sequence[Action], row_count: int) -> bool:
    """Compare rows, since Spark's count of the files of a WRITE may include an empty file that the entry omits."""
    counts = [json.loads(action["add"].get("stats") or "{}").get("numRecords") for action in actions if "add" in action]
    return None not in counts and sum(counts) < row_count
