"""Workers write data files if they are certainly on this machine, and nowhere else."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Column, Files, StreamTable
from lakehouse.ingest import merge
from lakehouse.ingest.merge import MANY_BYTES, WrittenRecords, with_data_files
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.positions import Plan, SourceId
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext

TABLE = StreamTable("t", doc="T.", columns=[Column("id", "INT", "Id.")], key=[], source=Files("things"))


@dataclass(frozen=True)
class ManyRecords:
    """Records that their readers decode, and that have many bytes."""

    size: int = MANY_BYTES

    def judged(self, judge: Any) -> Any:
        raise NotImplementedError(judge)


@pytest.mark.parametrize(
    ("settings", "are_written"),
    [
        ({}, True),
        ({"spark_master": "local-cluster[2,1,1024]"}, False),
        ({"spark_remote": "sc://spark.example.com:15002"}, False),
    ],
    ids=["here", "executors", "server"],
)
def test_workers_write_files_only_if_they_are_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], are_written: bool
) -> None:
    """A server of Spark Connect may be a cluster, whose workers write to disks of their own."""
    for name, answer in (("can_add_files", True), ("has_rejected", False)):
        monkeypatch.setattr(merge, name, lambda *_, answer=answer: answer)
    context = TableContext(None, Settings(home=tmp_path, _env_file=None, **settings), TABLE)  # type: ignore[arg-type]
    ledger = read_ledger(context.merged.layout.uri, "t")
    plan, commit = Plan("things", SourceId("files", "a"), ()), ledger.next_commit("batch", "cli")
    records = with_data_files(context, ManyRecords(), plan, commit, ledger)
    assert isinstance(records, WrittenRecords) == are_written
