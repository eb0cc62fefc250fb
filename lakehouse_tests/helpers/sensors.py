"""One table with its sensor, as the daemon evaluates it, and a log of its merged table without a JVM."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from lakehouse.errors import LakehouseError
from lakehouse.kafka import look
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import app_id
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.dagster_runs import Lakehouse

ALARM = dg.AssetCheckKey(dg.AssetKey("temperatures"), "batch_can_be_planned")
MERGED = {"kind": "batch", "number": 1, "attempt": "a", "table_version": -1}


class World(Lakehouse):
    """Definitions of one table with a topic of its own, an instance to run them in, and its sensor."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance, **declared: Any) -> None:
        super().__init__(settings, instance, f"sensor-{uuid4().hex[:12]}", **declared)
        self.cursor: str | None = None

    def tick(self) -> Any:
        sensor = self.defs.resolve_sensor_def("temperatures_sensor")
        context = dg.build_sensor_context(self.instance, cursor=self.cursor, resources=self.resources)
        with context:
            result = sensor.evaluate_tick(context)
        self.cursor = result.cursor or self.cursor
        return result

    def record_run(self, status: dg.DagsterRunStatus, job: str = "merge_temperatures", *keys: str) -> dg.DagsterRun:
        """Write a run into the instance as Dagster would: of a job, or of chosen assets of it."""
        chosen = frozenset(map(dg.AssetKey, keys)) or None
        declared = self.defs.get_repository_def().get_job(job)
        location = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("lakehouse"), "__repository__")
        return self.instance.create_run_for_job(
            declared.get_subset(asset_selection=chosen) if chosen else declared,
            status=status,
            asset_selection=chosen,
            remote_job_origin=RemoteJobOrigin(location, job),
        )

    def fails(self, error: type[LakehouseError]) -> str:
        """Let a tick fail; what it says."""
        with pytest.raises(error) as told:
            self.tick()
        return str(told.value)

    @property
    def told(self) -> list[tuple[bool, str | None]]:
        """Every evaluation of the check, oldest first: whether it passed, and its text."""
        stored = self.instance.event_log_storage.get_asset_check_execution_history(ALARM, limit=100)
        return [(one.evaluation.passed, one.evaluation.description) for one in reversed(stored)]

    def merged(self) -> None:
        """Write the log of a table that has merged all the topic holds, without a JVM."""
        state = look(self.settings, self.table.topic)
        write_log(self.log, Commit(**MERGED, source=state.source, progress=dict(state.end)))

    @property
    def log(self) -> Path:
        return Path(self.settings.table_uri("temperatures"), "_delta_log")

    def delete_records(self, before: dict[int, int]) -> None:
        gone = {TopicPartition(self.table.topic, p): RecordsToDelete(offset) for p, offset in before.items()}
        with_client(AIOKafkaAdminClient, self.settings, lambda admin: admin.delete_records(gone))


def write_log(folder: Path, commit: Commit, name: str = "temperatures") -> None:
    """The log of a table without rows whose first commit is this one."""
    fields = [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    meta = {"id": str(uuid4()), "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    said = {"timestamp": 0, "operation": "MERGE", "userMetadata": commit.model_dump_json()}
    actions = [
        {"commitInfo": said},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**meta, "partitionColumns": [], "configuration": {}}},
        {"txn": {"appId": app_id(name), "version": commit.number}},
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
