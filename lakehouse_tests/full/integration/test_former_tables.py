"""Tables as former code wrote them: opened, migrated in one fenced commit, merged, redriven, replayed, audited."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse.batch.ingest import Request, merge_all
from lakehouse.batch.redrive import redrive
from lakehouse.batch.replay import replay
from lakehouse.declaration import Column
from lakehouse.delta.audit import audit
from lakehouse.delta.commits import VERSION, Commit
from lakehouse.delta.engine import Engine
from lakehouse.delta.ensure import ensure_table
from lakehouse.delta.ledger import Ledger, read_ledger
from lakehouse.delta.order import merged_layout
from lakehouse.derive.refresh import refresh_changes, refresh_rollup
from lakehouse.errors import LedgerError, TableError
from lakehouse.local.broker import running_broker
from lakehouse.settings import Settings
from lakehouse.upkeep.rejections import list_rejected
from lakehouse.upkeep.repair import propose_progress
from lakehouse.upkeep.repair import record as record_decision
from lakehouse_tests.fixtures import FORMER, expected, unpack
from lakehouse_tests.helpers.rows import Row, origin, rows_of
from lakehouse_tests.helpers.streams import clean_log

pytestmark = pytest.mark.invariant(1, 3, 7, 8, 10)
DECLARED = [*(column.name for column in FORMER.columns), "observed_month"]
CHANGE = ["latitude", "longitude", "observed_at", "change", "temperature_2m_before", "temperature_2m_after"]
ORDER = ["kafka_timestamp", "kafka_partition", "kafka_offset"]
ANSWER = expected()
REVISION = Column("revision", "BIGINT", doc="Revision of the reading.")


def written(value: Any) -> Any:
    """A value as the answer is written."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if value is None or isinstance(value, int | float) else str(value)


def told(rows: list[Row], names: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(written(row[name]) for name in names) for row in rows)


def with_order(row: Row) -> Row:
    """A row of today's table with the order columns of the former one, and whether base rows brought it."""
    flat = dict(row)
    for kept, prefix in ((None, ""), ("temperature_2m", "temperature_2m_")):
        *order, base = origin(row, kept)
        flat |= dict(zip([f"{prefix}{name}" for name in ORDER], order, strict=True))
        flat[f"{prefix}from_base"] = base is not None
    return flat


def as_answered(row: Row) -> Row:
    prefixes = ("", "temperature_2m_")
    return row | {f"{prefix}from_base": row[f"{prefix}base_version"] is not None for prefix in prefixes}


ROW = [*DECLARED, *(f"{prefix}{name}" for prefix in ("", "temperature_2m_") for name in [*ORDER, "from_base"])]


class Former:
    """The home of the former tables, under today's code."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def ledger(self, name: str = FORMER.name) -> Ledger:
        return read_ledger(self.settings.table_uri(name), name, whole=True)

    def rows(self) -> Counter[tuple[Any, ...]]:
        return told([with_order(row) for row in rows_of(self.settings, FORMER.name)], ROW)

    def refresh(self, spark: Any) -> None:
        refresh_changes(Engine(spark, self.settings, FORMER))
        refresh_rollup(Engine(spark, self.settings, FORMER), FORMER.rollups[0])

    def rejected(self) -> Counter[tuple[Any, ...]]:
        found = list_rejected(self.settings, FORMER, limit=100)
        return Counter((each.reason, sample.partition, sample.offset) for each in found for sample in each.samples)

    def assert_stands_at(self, moment: str) -> None:
        answer, ledger = ANSWER[moment], self.ledger()
        assert self.rows() == told([as_answered(row) for row in answer["rows"]], ROW)
        assert {str(p): offset for p, offset in ledger.progress.offsets.items()} == answer["progress"]
        assert ledger.totals.model_dump() == answer["totals"]
        assert sorted(ledger.undone) == answer["undone"]
        assert {finding.check: finding.passed for finding in audit(ledger)} == answer["audit"]
        unresolved = [(each["reason"], each["partition"], each["offset"]) for each in answer["unresolved"]]
        assert self.rejected() == Counter(unresolved)


@pytest.fixture(scope="module")
def unread(tmp_path_factory) -> Former:
    return Former(unpack(tmp_path_factory.mktemp("unread")))


@pytest.fixture(scope="module")
def former(tmp_path_factory, spark) -> Iterator[Former]:
    """The topic is on a broker again; what waited in it is merged, and feed and rollup are brought up to date."""
    former = Former(unpack(tmp_path_factory.mktemp("former")))
    with running_broker(former.settings):
        merge_all(Engine(spark, former.settings, FORMER), Request())
        former.refresh(spark)
        yield former


def test_a_former_history_tells_the_same_before_anything_is_written(unread):
    ledger, answer = unread.ledger(), ANSWER["now"]
    assert {str(p): offset for p, offset in ledger.progress.offsets.items()} == answer["progress"]
    assert (ledger.totals.model_dump(), sorted(ledger.undone)) == (answer["totals"], answer["undone"])
    entries = [(entry.version, entry.commit.kind, entry.commit.number) for entry in ledger.entries]
    assert entries == [(each["version"], each["kind"], each["number"]) for each in answer["entries"]]
    assert {finding.check: finding.passed for finding in audit(ledger)} == answer["audit"]
    with pytest.raises(TableError, match="written by an older lakehouse.*lakehouse merge temperatures"):
        unread.rejected()


def test_a_former_table_is_migrated_in_one_fenced_commit_and_merged(former):
    for name in (FORMER.name, FORMER.rejected_name):
        answer, ledger = ANSWER["now"]["tables"][name], former.ledger(name)
        migrations = [entry for entry in ledger.entries if entry.commit.kind == "migration"]
        assert [entry.commit.number for entry in migrations] == [answer["transaction"] + 1]
        assert ledger.table_id == answer["table_id"]
    former.assert_stands_at("merged")


def test_a_migration_is_no_change_and_changes_from_before_it_are_told_one_by_one(former):
    feed = rows_of(former.settings, FORMER.changes_name)
    assert told(feed, CHANGE) == told(ANSWER["merged"]["changes"], CHANGE)
    assert not any(row["reconciled"] for row in feed)
    rollup = rows_of(former.settings, FORMER.rollups[0].name)
    measures = [*FORMER.rollups[0].by, *FORMER.rollups[0].measures]
    assert told(rollup, measures) == told(ANSWER["merged"]["rollup"], measures)


def test_a_migrated_table_says_what_its_columns_mean_and_in_what_partitions_it_is(former):
    table = DeltaTable(former.settings.table_uri(FORMER.name))
    fields = {field.name: field for field in table.schema().fields}
    assert list(fields) == [*DECLARED, "_record", "_kept"]
    assert all(field.metadata.get("comment") for field in fields.values())
    assert table.metadata().partition_columns == ["observed_month"]
    assert table.metadata().configuration["delta.enableChangeDataFeed"] == "true"


def test_a_redrive_and_a_replay_after_a_migration_do_what_they_did(former, spark):
    outcomes = redrive(Engine(spark, former.settings, FORMER))
    former.refresh(spark)
    former.assert_stands_at("redriven")
    before = former.rows()
    again = replay(Engine(spark, former.settings, FORMER))
    assert all(outcome.entry.metrics.inserted + outcome.entry.metrics.updated == 0 for outcome in again)
    assert (len(outcomes), former.rows()) == (1, before)
    said = former.ledger().newest.commit
    assert isinstance(said, Commit) and said.metadata == VERSION


def test_a_second_look_migrates_nothing(former, spark):
    version = former.ledger().version
    assert merge_all(Engine(spark, former.settings, FORMER), Request()) == []
    assert former.ledger().version == version


def other(former: Former, spark: Any, **declared: Any) -> Engine:
    return Engine(spark, former.settings, replace(FORMER, **declared))


@pytest.fixture
def fresh(tmp_path) -> Former:
    return Former(unpack(tmp_path))


def test_a_former_table_that_is_declared_otherwise_is_left_as_it_is(fresh, spark):
    """Types and partitions are looked at first: to write its rows anew could change what they say."""
    whole = replace(FORMER.columns[3], type="INT", between=(-100, 70))
    for declared in ({"columns": [*FORMER.columns[:3], whole]}, {"partition_by": None, "rollups": ()}):
        engine = other(fresh, spark, **declared)
        with pytest.raises(TableError, match="declar"):
            ensure_table(spark, merged_layout(engine.table, fresh.settings))
    assert fresh.ledger().version == ANSWER["now"]["tables"][FORMER.name]["version"]


def test_columns_of_somebody_else_and_those_declared_just_now_are_there_after_a_migration(fresh, spark):
    uri = fresh.settings.table_uri(FORMER.name)
    spark.sql(f"ALTER TABLE delta.`{uri}` ADD COLUMNS (note STRING)")
    spark.sql(f"UPDATE delta.`{uri}` SET note = 'checked' WHERE temperature_2m > 40")
    columns = [*FORMER.columns, Column("humidity", "DOUBLE", keep=True, doc="Percent."), REVISION]
    engine = other(fresh, spark, columns=columns, version="revision")
    ensure_table(spark, merged_layout(engine.table, fresh.settings))
    found = spark.read.format("delta").load(uri)
    assert found.where("note = 'checked'").count() == found.where("temperature_2m > 40").count() > 0
    assert found.where("humidity IS NULL AND revision IS NULL AND _kept.humidity IS NULL").count() == found.count()
    assert "kafka_offset" not in found.columns


def test_a_former_table_whose_log_no_longer_tells_its_progress_is_not_migrated_before_a_person_says_it(fresh, spark):
    uri = fresh.settings.table_uri(FORMER.name)
    clean_log(uri)
    with running_broker(fresh.settings):
        with pytest.raises(LedgerError, match="lakehouse recover-progress temperatures"):
            merge_all(other(fresh, spark), Request())
        assert "kafka_offset" in DeltaTable(uri).to_pyarrow_table().column_names
        shown = propose_progress(other(fresh, spark))
        assert shown.offsets == {0: 19, 1: 13, 2: 15}, "the record at 1:13 was rejected, and is read again"
        record_decision(other(fresh, spark), shown)
        merge_all(other(fresh, spark), Request())
    assert fresh.rows() == told([as_answered(row) for row in ANSWER["merged"]["rows"]], ROW)
