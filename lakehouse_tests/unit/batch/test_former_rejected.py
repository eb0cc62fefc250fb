"""Rejected records as an older lakehouse stored them: in which table one passed was not told."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.batch.rejected import rejected_layout
from lakehouse.delta.commits import Commit
from lakehouse.settings import Settings
from lakehouse.tables.temperatures import temperatures

pytestmark = pytest.mark.invariant(8)


def table(settings: Settings, name: str, created: int | None) -> DeltaTable:
    """A table that says when it was made."""
    uri = settings.table_uri(name)
    write_deltalake(uri, pa.table({"id": [1]}))
    log = Path(uri, "_delta_log", f"{0:020d}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["createdTime"] = created
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return DeltaTable(uri)


def passed_in(folder: Path, merged_at: int | None, rejected_at: int | None) -> tuple[str, str]:
    """The expression for the table in which a record passed, and the id of the merged table."""
    settings = Settings(home=folder)
    merged = table(settings, temperatures.name, merged_at)
    said = Commit(kind="redrive", number=7, attempt="a", table_version=0).model_dump_json()
    properties = CommitProperties(custom_metadata={"userMetadata": said})
    merge = merged.merge(pa.table({"id": [1]}), "s.id = t.id", "s", "t", commit_properties=properties)
    merge.when_matched_update_all().execute()
    table(settings, temperatures.rejected_name, rejected_at)
    former = rejected_layout(temperatures, settings).former
    assert former is not None
    made = {one.column.name: one.sql for one in former.made([])}
    return made["resolved_table_id"], str(merged.metadata().id)


def test_it_passed_in_the_merged_table_that_was_there_before_the_rejected_one(tmp_path: Path) -> None:
    told, merged = passed_in(tmp_path, 1000, 1001)
    assert told == f"IF(resolved_number IN (7), '{merged}', NULL)"


@pytest.mark.parametrize(("merged_at", "rejected_at"), [(1002, 1001), (None, 1001), (1000, None)])
def test_where_the_merged_table_may_have_been_made_anew_it_is_not_told(
    tmp_path: Path, merged_at: int | None, rejected_at: int | None
) -> None:
    """The numbers of the former table come again in the new one."""
    assert passed_in(tmp_path, merged_at, rejected_at)[0] == "NULL"
