"""Runs of sinks are killed, race and lose their database: each change arrives once, with the version of the table."""

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lakehouse.errors import LakehouseError
from lakehouse_tests.helpers.attacks.reliability import Target as Attacked
from lakehouse_tests.helpers.attacks.sink_worker import Moment, start
from lakehouse_tests.helpers.databases.postgres import Postgres, running_postgres
from lakehouse_tests.helpers.tables.delivered import Target, new_sql_server_target, new_target
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge

CRASH, ONCE, LOST = "A crash loses nothing", "Two writers lose nothing", "Nothing is lost"
STATEMENTS = 11  # of a run that writes and deletes rows, with COMMIT


@pytest.fixture
def target(postgres: Postgres, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Target]:
    new = new_sql_server_target if getattr(request, "param", "") == "SQL Server" else new_target
    with new(postgres, tmp_path) as target:
        append(target.settings, *((f"s{number}", 1.0, day(1 + number % 5)) for number in range(20)))
        target.update()
        yield target


def change(target: Target, number: int) -> None:
    """Insert, update and delete rows; two versions of the table."""
    merge(target.settings, (f"s{number % 20}", 2.0 + number, day(7)), (f"n{number}", 1.0, None))
    delete(target.settings, f"id = 's{(number + 9) % 20}' OR id = 'n{number - 3}'")


def recorded_rows(target: Target) -> Counter[str]:
    """The rows of the version that the target says it has."""
    ((version,),) = target.rows("SELECT version FROM lakehouse_progress")
    return target.table_rows(version)


@pytest.mark.invariant("10.14")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(STATEMENTS))
def test_a_rerun_after_a_kill_at_each_statement_is_exact(target: Target, when: str, nth: int, attack: Any) -> None:
    change(target, 0)
    moment: Moment = (when, nth)
    with attack(CRASH, f"SIGKILL, {when} a statement of a sink", target=Attacked.SINKS):
        process = start(target, moment)
        output = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"The run did not reach the moment: {output}"
        assert target.stored_rows() == recorded_rows(target)
        target.update()
        assert target.stored_rows() == target.table_rows()
        assert target.update().kind is None


def test_a_run_has_as_many_statements_as_are_killed(target: Target) -> None:
    change(target, 0)
    process = start(target, ("before", STATEMENTS))
    assert "changes" in process.communicate()[0]
    assert process.returncode == 0


@pytest.mark.invariant("10.14")
def test_kills_of_connections_at_any_time_lose_nothing(target: Target, attack: Any) -> None:
    rng, failures = random.Random(56), 0
    for number in range(25):
        change(target, number)
        with attack(LOST, "the database ends the connection of a sink at a random time", target=Attacked.SINKS):
            process = start(target)
            Event().wait(rng.uniform(0.6, 1.6))
            target.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lakehouse'")
            failures += "error" in json.loads(process.communicate()[0])
            assert target.stored_rows() == recorded_rows(target)
    target.update()
    assert target.stored_rows() == target.table_rows()
    assert failures, "no connection was ended during a run"


@pytest.mark.invariant("10.14")
def test_four_runs_at_the_same_time_write_each_change_once(target: Target, attack: Any) -> None:
    for number in range(8):
        change(target, number)
        with attack(ONCE, "four runs of a sink at the same time", target=Attacked.SINKS):
            processes = [start(target) for _ in range(4)]
            kinds = [json.loads(process.communicate()[0])["kind"] for process in processes]
            assert sorted(map(str, kinds)) == ["None", "None", "None", "changes"]
            assert target.stored_rows() == target.table_rows()


@pytest.mark.invariant("10.14")
def test_a_database_that_is_killed_and_started_again_has_what_it_reported(tmp_path: Path, attack: Any) -> None:
    with running_postgres() as server, new_target(server, tmp_path) as target:
        append(target.settings, ("a", 1.0, day(1)))
        target.update()
        for number in range(4):
            change(target, number)
            with attack(LOST, "the database is killed and started again", target=Attacked.SINKS):
                reported_version = target.update().source_version if number % 2 else None
                server.stop()
                with pytest.raises(LakehouseError, match="the database refused"):
                    target.update()
                server.start()
                assert target.stored_rows() == recorded_rows(target)
                assert reported_version in (None, target.rows("SELECT version FROM lakehouse_progress")[0][0])
                target.update()
                assert target.stored_rows() == target.table_rows()


@pytest.mark.invariant("10.14")
@pytest.mark.parametrize("target", ["PostgreSQL", "SQL Server"], indirect=True)
@pytest.mark.parametrize("seed", range(12))
def test_random_histories_end_with_the_rows_of_the_table(target: Target, seed: int, attack: Any) -> None:
    """Changes, restores, VACUUM, new tables, killed runs and other columns, in any order."""
    rng = random.Random(seed)
    uri = target.settings.table_uri("sales")

    def restore() -> None:
        DeltaTable(uri).restore(rng.randrange(max(DeltaTable(uri).version() - 3, 0), DeltaTable(uri).version() + 1))

    def vacuum() -> None:
        DeltaTable(uri).optimize.compact()
        DeltaTable(uri).vacuum(0, enforce_retention_duration=False, dry_run=False)

    def create_again() -> None:
        Path(uri).rename(Path(uri).with_name(f"former_{rng.random()}"))
        append(target.settings, ("s1", 5.0, day(2)), ("again", 1.0, None))

    def kill() -> None:
        if target.sql_server:
            target.sql_server.ends_before = rng.randrange(STATEMENTS)
            with suppress(LakehouseError):
                target.update()
            target.sql_server.ends_before = None
            return
        start(target, (rng.choice(["before", "after"]), rng.randrange(STATEMENTS))).communicate()

    steps = [lambda: change(target, rng.randrange(40)), restore, vacuum, create_again, kill, target.update]
    steps += [lambda: append(target.settings, (f"x{rng.random()}", -0.0, None)), lambda: target.update(whole=True)]
    with attack(LOST, "random histories of a sink", target=Attacked.SINKS):
        for _ in range(14):
            with suppress(DeltaError):  # a RESTORE of a version whose files VACUUM took
                rng.choices(steps, [6, 1, 1, 0.5, 3, 4, 2, 0.5])[0]()
        target.update()
        assert target.stored_rows() == target.table_rows()
        assert target.delivery.equals_table().passed
