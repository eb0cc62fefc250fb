"""Whether an entry of a log names as many files as its own commit counted: one cut at the end of a line reads well."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

Action = dict[str, Any]
# Spark's Delta counts files of changes apart, deltalake among the others
_COUNTED: Final = (
    (("numTargetFilesAdded", "numAddedFiles"), ("add",)),
    (("numTargetChangeFilesAdded", "numAddedChangeFiles"), ("cdc",)),
    (("num_target_files_added", "num_added_files"), ("add", "cdc")),
    (("numTargetFilesRemoved", "numRemovedFiles", "num_target_files_removed", "num_removed_files"), ("remove",)),
)


def is_cut(actions: Sequence[Action]) -> bool:
    """Whether an entry names fewer files, or files of fewer rows, than its commit counted.

    Only a commit of ours is compared: others may count in their own way. One may name more files than it counted.
    """
    from lakehouse.ledger.commits import said_by  # noqa: PLC0415 - brings Kafka's client, which a query needs not

    kinds = Counter(next(iter(action), "") for action in actions)
    info: Action = next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
    if said_by(info) is None:
        return False
    counted = info.get("operationMetrics") or {}
    written = _figure(counted, "numOutputRows") if info.get("operation") == "WRITE" else 0
    few = (_figure(counted, name) > sum(kinds[kind] for kind in by) for names, by in _COUNTED for name in names)
    return any(few) or _has_too_few_rows(actions, written)


def _figure(counted: Mapping[str, Any], name: str) -> int:
    return int(counted.get(name, 0))


def _has_too_few_rows(actions: Sequence[Action], written: int) -> bool:
    """Spark's count of the files of a WRITE may hold an empty one, which it does not name: its rows are compared."""
    told = [json.loads(action["add"].get("stats") or "{}").get("numRecords") for action in actions if "add" in action]
    return None not in told and sum(told) < written
