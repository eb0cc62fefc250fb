"""A sensor neither creates a table nor takes up a changed declaration until a person accepts it."""

from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

import lakehouse.spark.sessions
from lakehouse.declaration import Check, Column
from lakehouse.defs.build import build_defs
from lakehouse.defs.runs import read_error
from lakehouse.errors import ConflictError
from lakehouse.ingest.batches import merge_all
from lakehouse.kafka import publish
from lakehouse.operations.repair import accept_declaration
from lakehouse.operations.status import find_unaccepted, status
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.storage import schema_change
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.commands import notices_of, output_of, read_json_output
from lakehouse_tests.helpers.dagster_runs import FIRST, SECOND
from lakehouse_tests.helpers.sensors import World
from lakehouse_tests.helpers.tables.tables import redeclare

STATION = Column("station", "STRING", doc="Its name.")
NEW = "temperatures is new: it waits for its first merge, by a person. Run: lakehouse merge temperatures"
CHANGED = "The declaration of temperatures changed, and waits until a person accepts it: column station is new"


@pytest.fixture
def world(broker: Settings, tmp_path: Path, instance: dg.DagsterInstance) -> World:
    """A new table whose topic has records, where declarations are not reviewed."""
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker), reviewed=False)
    world = World(settings, instance, base=None, references=(), rollups=())
    publish(settings, world.table, FIRST)
    return world


def declare(world: World, **changes: Any) -> None:
    """Change the declaration of the table, as an edit of its file does."""
    world.table = redeclare(world.table, **changes)
    world.defs = build_defs([world.table], world.resources)


@pytest.mark.invariant("12.14")
def test_a_new_table_waits_for_a_person_and_is_no_failure(world: World) -> None:
    result = world.tick()
    assert not result.run_requests
    assert NEW in result.skip_message
    assert [passed for passed, _ in world.evaluations] == [True]
    assert NEW in (status(world.settings, world.table).unaccepted or "")
    assert not Path(world.settings.table_uri("temperatures")).exists()


def test_a_reviewed_declaration_waits_for_nobody(world: World) -> None:
    settings = world.settings.model_copy(update={"reviewed": True})
    reviewed_world = World(settings, world.instance)
    publish(settings, reviewed_world.table, FIRST)
    assert len(reviewed_world.tick().run_requests) == 1


@pytest.mark.invariant("12.14")
def test_a_changed_declaration_waits_until_a_person_accepts_it(world: World, spark: SparkSession) -> None:
    merge_all(TableContext(spark, world.settings, world.table))
    publish(world.settings, world.table, SECOND)
    assert len(world.tick().run_requests) == 1

    declare(world, columns=[*world.table.columns, STATION])
    result = world.tick()
    assert not result.run_requests
    assert CHANGED in result.skip_message
    assert [passed for passed, _ in world.evaluations] == [True, False]
    assert CHANGED in (status(world.settings, world.table).unaccepted or "")

    context = TableContext(spark, world.settings, world.table)
    changes = find_unaccepted(world.settings, world.table)
    assert changes == ["column station is new"]
    entry = accept_declaration(context, changes)
    assert entry.commit.kind == "acceptance"
    assert entry.commit.reason.startswith(f"{getuser()}@")
    assert entry.commit.reason.endswith(" accepted the declaration: column station is new")
    assert len(world.tick().run_requests) == 1
    assert [passed for passed, _ in world.evaluations] == [True, False, True]
    (outcome,) = merge_all(context)
    assert outcome.entry.commit.read == len(SECOND)


def test_a_change_that_rows_do_not_keep_waits_for_nobody(world: World, spark: SparkSession) -> None:
    merge_all(TableContext(spark, world.settings, world.table))
    publish(world.settings, world.table, SECOND)
    declare(world, checks=[Check("warm", "true", doc="")], doc="Other words.")
    assert len(world.tick().run_requests) == 1


@pytest.mark.invariant("12.14")
def test_the_schedule_of_maintenance_changes_no_table_before_a_person_does(world: World) -> None:
    schedule = world.defs.resolve_schedule_def("temperatures_maintenance_daily")
    with dg.build_schedule_context(world.instance, resources=world.resources) as context:
        data = schedule.evaluate_tick(context)
    assert not data.run_requests
    assert NEW in data.skip_message


@pytest.mark.invariant("12.14")
@pytest.mark.parametrize("job", ["merge_temperatures", "maintain_temperatures"])
def test_a_run_of_a_sensor_whose_process_reads_a_newer_declaration_changes_nothing(world: World, job: str) -> None:
    tags = {"dagster/sensor_name": "temperatures_sensor"}
    result = world.defs.resolve_job_def(job).execute_in_process(
        instance=world.instance, tags=tags, raise_on_error=False
    )
    assert not result.success
    assert NEW in read_error(world.instance, result.run_id)
    assert not Path(world.settings.table_uri("temperatures")).exists()


DECLARATION = """
from lakehouse import Column, StreamTable

fits = StreamTable("fits", "fits", "", [Column("id", "BIGINT", required=True, doc=""){}], key=["id"])
"""


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, broker: Settings) -> Iterator[Path]:
    """A home whose commands use the session and the broker of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_HOME", str(tmp_path))
        patch.setenv("LAKEHOUSE_REVIEWED", "false")
        patch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers(broker))
        patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
        patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
        yield tmp_path


def declare_in(folder: Path, columns: str, patch: pytest.MonkeyPatch) -> None:
    """Declare the table in a folder of its own: a process reads each folder once."""
    folder.mkdir()
    (folder / "fits.py").write_text(DECLARATION.format(columns))
    patch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))


def test_plan_accept_changes_the_table_and_the_audit_names_the_person(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare_in(lake / "fits_of_old", "", monkeypatch)
    assert "fits is new" in notices_of("plan", "--accept")
    output_of("topics", "--create", "fits")
    output_of("merge", "fits")
    declare_in(lake / "fits_of_new", ', Column("price", "DOUBLE", doc="")', monkeypatch)
    assert "lakehouse plan fits --accept" in notices_of("plan")
    assert notices_of("plan", "--accept").endswith("of fits. Sensors merge into it.")
    assert "--accept" not in notices_of("plan")
    (audit,) = read_json_output("audit")
    reasons = [entry["reason"] for entry in audit["entries"] if entry["kind"] == "acceptance"]
    assert len(reasons) == 1
    assert reasons[0].startswith(getuser())
    assert "column price is new" in reasons[0]


def test_two_writers_that_add_the_same_column_are_planned_again(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge_all(TableContext(spark, world.settings, world.table))
    declare(world, columns=[*world.table.columns, STATION])
    add_columns = schema_change._add_columns

    def add_after_another_writer(*arguments: Any) -> None:
        monkeypatch.setattr(schema_change, "_add_columns", add_columns)
        add_columns(*arguments)
        with pytest.raises(ConflictError, match="Another writer changed temperatures"):
            add_columns(*arguments)
        raise ConflictError("planned again")

    monkeypatch.setattr(schema_change, "_add_columns", add_after_another_writer)
    context = TableContext(spark, world.settings, world.table)
    merge_all(context)
    assert "station" in context.merged.rows().columns
