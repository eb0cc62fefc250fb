"""Evaluate the sensor of one table as the daemon does, and write the log of its merged table without a JVM."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from lakehouse.errors import LakehouseError
from lakehouse.kafka import read_topic
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import app_id
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.code_locations import check_results, create_run, sensor_context
from lakehouse_tests.helpers.dagster_runs import Lakehouse

ALARM = dg.AssetCheckKey(dg.AssetKey("temperatures"), "batch_can_be_planned")
MERGED = {"kind": "batch", "number": 1, "attempt": "a", "table_version": -1}
LOCATION = "lakehouse"


class World(Lakehouse):
    """Definitions of one table with a new topic, an instance that runs them, and the sensor of the table."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance, **changes: Any) -> None:
        super().__init__(settings, instance, f"sensor-{uuid4().hex[:12]}", **changes)
        self.cursor: str | None = None

    def tick(self) -> Any:
        sensor = self.defs.resolve_sensor_def("temperatures_sensor")
        with sensor_context(self.defs, self.instance, self.resources, self.cursor, LOCATION) as context:
            result = sensor.evaluate_tick(context)
        self.cursor = result.cursor or self.cursor
        return result

    def record_run(
        self, status: dg.DagsterRunStatus, job: str = "merge_temperatures", *keys: str, location: str = LOCATION
    ) -> dg.DagsterRun:
        """Record a run in the instance as Dagster does, of a job or of some of its assets."""
        return create_run(self.instance, self.defs, job, *keys, location=location, status=status)

    def fails(self, error: type[LakehouseError]) -> str:
        """Require that a tick fails with this error; return its message."""
        with pytest.raises(error) as raised:
            self.tick()
        return str(raised.value)

    @property
    def evaluations(self) -> list[tuple[bool, str]]:
        """The evaluations of the check, oldest first: whether it passed, and its description."""
        return check_results(self.instance, ALARM.asset_key, ALARM.name)

    def merged(self, positions: Mapping[int, int] | None = None) -> None:
        """Write the log of a table that has merged its topic up to these positions, or all of it, without a JVM."""
        state = read_topic(self.settings, self.table.topic)
        write_log(self.log, Commit(**MERGED, source=state.source, progress=dict(positions or state.end)))

    @property
    def log(self) -> Path:
        return Path(self.settings.table_uri("temperatures"), "_delta_log")

    def delete_records(self, offsets: dict[int, int]) -> None:
        deletions = {TopicPartition(self.table.topic, p): RecordsToDelete(offset) for p, offset in offsets.items()}
        with_client(AIOKafkaAdminClient, self.settings, lambda admin: admin.delete_records(deletions))


def write_log(folder: Path, commit: Commit, name: str = "temperatures") -> None:
    """Write the log of an empty table with this commit as its first."""
    fields = [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    meta = {"id": str(uuid4()), "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    commit_info = {"timestamp": 0, "operation": "MERGE", "userMetadata": commit.model_dump_json()}
    actions = [
        {"commitInfo": commit_info},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**meta, "partitionColumns": [], "configuration": {}}},
        {"txn": {"appId": app_id(name), "version": commit.number}},
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
