"""Table folders are damaged: every command reports it in one sentence, and nothing is lost."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

import lakehouse.spark.sessions
from lakehouse.cli import main
from lakehouse.declaration import Deletes
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.attacks.deleting_streams import DeletingStream
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, delete, hour, record
from lakehouse_tests.helpers.histories.upsets import assert_all_is_right, undo_afterwards
from lakehouse_tests.helpers.tables.tables import Tables

LOST, SILENT = "Nothing is lost", "Nothing is silent"


@pytest.fixture(scope="module")
def stream(spark, broker) -> DeletingStream:
    """A table with a checkpoint; tests that damage it restore it."""
    stream = DeletingStream.create(spark, broker)
    stream.send_and_merge(record(time=hour(0)))
    DeltaTable(stream.uri).create_checkpoint()
    for number in (1, 2):
        stream.send_and_merge(record(time=hour(number)))
    return stream


def commit_file(folder: Path, age: int) -> Path:
    """The log entry of a commit; the newest one has age 0."""
    return sorted(folder.glob("_delta_log/*.json"))[-1 - age]


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:40])


def replace_by_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("not a folder")


def remove(file: Path) -> None:
    shutil.rmtree(file) if file.is_dir() else file.unlink()


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the newest commit cut short": (
        lambda folder: cut_short(commit_file(folder, 0)),
        "is incomplete, as after a power failure",
    ),
    "garbage in a commit": (
        lambda folder: commit_file(folder, 1).write_text("garbage\n"),
        "log (is damaged and )?cannot be read",
    ),
    "a commit missing": (
        lambda folder: commit_file(folder, 1).unlink(),
        "log (is damaged and )?cannot be read.* [Gg]ap",
    ),
    "a checkpoint cut short": (
        lambda folder: [cut_short(file) for file in folder.glob("_delta_log/*.checkpoint.parquet")],
        "(log (is damaged and )?cannot be read|is incomplete, as after a power failure)",
    ),
    "a file instead of the log": (
        lambda folder: [remove(folder / "_delta_log"), (folder / "_delta_log").write_text("")],
        "log (is damaged and )?cannot be read",
    ),
    "the log missing": (lambda folder: remove(folder / "_delta_log"), "not a Delta table: it holds observed_month="),
    "a file instead of the folder": (replace_by_a_file, "The table's folder is a file"),
}


@pytest.mark.invariant("9.9")
@pytest.mark.parametrize("damage_name", DAMAGES)
def test_every_command_names_a_damaged_table_in_one_sentence(stream, damage_name, tmp_path, attack):
    folder = Path(stream.uri)
    damage, message = DAMAGES[damage_name]
    actions = [stream.merge, lambda: status(stream.settings, stream.table), lambda: stream.ledger, stream.refresh]
    with attack(SILENT, f"table damaged: {damage_name}"), undo_afterwards(folder, tmp_path):
        damage(folder)
        for action in actions:
            with pytest.raises(TableError, match=f"(?s){message}.*{re.escape(str(folder))}") as error_info:
                action()
            assert len(str(error_info.value).splitlines()) == 1
    with attack(LOST, f"table damaged and brought back: {damage_name}"):
        assert stream.merge() == []


def test_files_left_behind_by_other_writers_do_no_harm(stream, attack):
    log = Path(stream.uri, "_delta_log")
    with attack(LOST, "left behind in the log: temporary files, a damaged _last_checkpoint"):
        (log / "_last_checkpoint").write_text("garbage")
        next_version = f"{stream.ledger.version + 1:020d}.json"
        (log / f"{next_version}.tmp").write_text('{"add')
        (log / f".{next_version}.0123.tmp").write_text('{"add')
        stream.send_and_merge(record(time=hour(3)))
        assert set(stream.temperatures()) == {hour(number) for number in range(4)}


@pytest.mark.invariant("1.17")
def test_tables_whose_creation_was_interrupted_are_created(spark, broker, attack):
    stream = Stream.create(spark, broker, deletes=Deletes(when=DELETES))
    stream.send(record(time=hour(0)), b"{", record(time=hour(1)), delete(hour(1)))
    with attack(LOST, "creation of the tables cut off"):
        table = stream.table
        for name in (table.name, table.rejected_name, table.deletes_name, table.changes_name):
            log = Path(stream.settings.table_uri(name), "_delta_log")
            log.mkdir(parents=True)
            (log / f".{0:020d}.json.0123.tmp").write_text('{"protocol')
        assert not status(stream.settings, stream.table).ledger.exists
        stream.merge()
        assert (len(stream.temperatures()), len(stream.rejected())) == (1, 1)
        assert len(Tables(stream.settings, table).deletes()) == 1
        assert_all_is_right(stream)
        delta_table = DeltaTable(stream.uri)
        assert delta_table.metadata().partition_columns == ["observed_month"]
        assert "delta.deletedFileRetentionDuration" in delta_table.metadata().configuration
        assert delta_table.schema().fields[0].metadata["comment"].startswith("Degrees north")


def test_a_folder_without_read_permission_is_not_a_missing_table(stream, attack):
    if os.geteuid():
        pytest.skip("only root can become another user")
    folder = Path(stream.uri)
    with attack(SILENT, "a folder that may not be read"):
        try:
            os.seteuid(65534)
            with pytest.raises(TableError, match="Permission denied"):
                read_ledger(str(folder), stream.table.name)
        finally:
            os.seteuid(0)


@pytest.fixture
def damaged_settings(broker, spark, tmp_path, monkeypatch) -> Settings:
    """Settings of a home in which the merged table ``temperatures`` cannot be read."""
    address = bootstrap_servers(broker)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", address)
    monkeypatch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
    monkeypatch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=address, _env_file=None)
    log = Path(settings.table_uri("temperatures"), "_delta_log")
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text('{"protocol')
    return settings


@pytest.mark.invariant("9.9", "12.3")
def test_commands_runs_and_the_sensor_report_the_damage_in_one_sentence(damaged_settings, capfd, attack):
    for arguments in (
        ["status"],
        ["audit"],
        ["merge", "--dry-run"],
        ["merge"],
        ["query", "SELECT 1 FROM temperatures"],
    ):
        with attack(SILENT, f"table damaged: lakehouse {arguments[0]}"):
            assert main.run(arguments) == 1
            error_lines = capfd.readouterr().err.removeprefix("Starting Spark ...\n").splitlines()
            assert len(error_lines) == 1
            assert (
                "Table temperatures cannot be read" if arguments[0] == "query" else "is incomplete, as after"
            ) in error_lines[0]
    resources = {"lakehouse": LakehouseResource.with_settings(damaged_settings)}
    defs = build_defs([temperatures], resources)
    with attack(SILENT, "table damaged: a run in Dagster"):
        run = defs.resolve_job_def("merge_temperatures").execute_in_process(raise_on_error=False)
        failures = [event.step_failure_data for event in run.get_step_failure_events()]
        assert "is incomplete, as after" in failures[0].user_failure_data.description
    with attack(SILENT, "table damaged: the sensor"), dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance, resources=resources)
        with context, pytest.raises(TableError, match="is incomplete, as after"):
            defs.resolve_sensor_def("temperatures_sensor").evaluate_tick(context)
