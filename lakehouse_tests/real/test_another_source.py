"""Records of a source other than a topic are merged, rejected, redriven and replayed by position. No broker."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import DataLossError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Progress, SourceId
from lakehouse.operations.repair import propose_progress
from lakehouse.operations.verify import verify_keys
from lakehouse.settings import Settings
from lakehouse.sources import table_sources
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import clean_log, counts, hour, record, unique_table
from lakehouse_tests.helpers.tables.lines import AT, Lines
from lakehouse_tests.helpers.tables.log_tables import log_table
from lakehouse_tests.helpers.tables.rows import Row, rows_of

IN_LOG = {"order_time": None}
KEYED = {"order_time": None, "base": None}
WARM = record(time=hour(0), temperature_2m=70.5)  # above the maximum of the declaration


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """A folder of files that is read in place of a topic."""
    folder = Lines("first")
    monkeypatch.setattr(table_sources, "read_topic", lambda *_, **__: folder.read_state())
    monkeypatch.setattr(table_sources, "with_lost_ends", lambda _, state, *__: state)  # it never loses lines
    monkeypatch.setattr(table_sources, "read_records", lambda spark, _, plan: spark.createDataFrame(folder.read(plan)))
    return folder


@pytest.fixture
def context(spark: SparkSession, tmp_path: Path) -> TableContext:
    return TableContext(spark, Settings(home=tmp_path, _env_file=None), unique_table())


def position_row(partition: int, position: int, sequence: int | None, source: str = "lines:first") -> Row:
    return {"source": source, "partition": partition, "position": position, "sequence": sequence}


def stored_rows(context: TableContext) -> list[tuple[float, Row]]:
    return [(row["temperature_2m"], row["_record"]) for row in rows_of(context.settings, context.table.name)]


@pytest.mark.invariant("4.1")
@pytest.mark.slow
def test_the_order_of_the_source_decides_inside_a_batch_against_the_table_and_in_a_replay(
    context: TableContext, lines: Lines
) -> None:
    lines.write(0, (2, record(time=hour(0), temperature_2m=2)), (1, record(time=hour(0), temperature_2m=1)))
    (outcome,) = merge_all(context)
    assert counts(outcome.entry)["superseded"] == 1
    newest = [(2.0, position_row(0, 0, 2) | {"time": AT} | KEYED)]
    assert stored_rows(context) == newest
    lines.write(3, (0, record(time=hour(0), temperature_2m=0)))
    (outcome,) = merge_all(context)
    assert counts(outcome.entry)["stale"] == 1
    assert stored_rows(context) == newest
    assert context.ledger().progress == Progress(SourceId("lines", "first"), {0: 2, 3: 1})
    replay(context)
    assert stored_rows(context) == newest
    lines.write(0, (3, record(time=hour(0), temperature_2m=3)))
    merge_all(context)
    assert stored_rows(context) == [(3.0, position_row(0, 2, 3) | {"time": AT} | KEYED)]
    assert merge_all(context) == []


@pytest.mark.invariant("8.1", "8.12")
@pytest.mark.slow
def test_a_rejected_record_keeps_its_position_until_it_is_redriven(context: TableContext, lines: Lines) -> None:
    lines.write(4, (7, WARM))
    merge_all(context)
    (row,) = rows_of(context.settings, context.table.rejected_name)
    assert row["position"] == position_row(4, 0, 7)
    columns = [
        replace(c, between=(-100, 100)) if c.name == "temperature_2m" else c for c in context.table.record_columns
    ]
    wider_context = replace(context, table=replace(context.table, columns=columns))
    (outcome,) = redrive(wider_context)
    assert counts(outcome.entry)["inserted"] == 1
    assert stored_rows(wider_context) == [(70.5, position_row(4, 0, 7) | {"time": AT} | KEYED)]
    assert redrive(wider_context) == []


@pytest.mark.invariant("4.5")
@pytest.mark.slow
def test_a_log_table_finds_its_rows_by_position(context: TableContext, lines: Lines) -> None:
    log_context = replace(context, table=log_table(rollups=[]))
    lines.write(0, (5, record(time=hour(0), temperature_2m=1)), (5, record(time=hour(0), temperature_2m=1)))
    merge_all(log_context)
    rows = sorted(stored_rows(log_context), key=lambda row: row[1]["position"])
    assert rows == [
        (1.0, position_row(0, 0, 5) | {"time": AT} | IN_LOG),
        (1.0, position_row(0, 1, 5) | {"time": AT} | IN_LOG),
    ]
    (outcome,) = replay(log_context)
    assert counts(outcome.entry)["stale"] == 2
    assert sorted(stored_rows(log_context), key=lambda row: row[1]["position"]) == rows


@pytest.mark.invariant("4.5")
@pytest.mark.slow
def test_a_record_whose_sequence_is_added_later_is_the_same_record(context: TableContext, lines: Lines) -> None:
    log_context = replace(context, table=log_table(rollups=[]))
    valid_record, other_record = record(time=hour(0), temperature_2m=1), record(time=hour(0))
    lines.write(0, (None, valid_record), (None, b"{"), (None, other_record))
    merge_all(log_context)
    rows = stored_rows(log_context)
    lines.files[0] = [(5, valid_record), (6, b"{"), (7, other_record)]
    (outcome,) = replay(log_context)
    assert (outcome.entry.commit.read, outcome.entry.commit.rejected, counts(outcome.entry)["stale"]) == (3, 1, 2)
    assert stored_rows(log_context) == rows
    (rejected_row,) = rows_of(log_context.settings, log_context.table.rejected_name)
    assert rejected_row["position"] == position_row(0, 1, 6)
    assert verify_keys(log_context).passed


@pytest.mark.invariant("9.8")
@pytest.mark.slow
def test_rows_of_two_sources_are_not_ordered_by_positions_alone(context: TableContext, lines: Lines) -> None:
    by_position = replace(context, table=unique_table(order="offset"))
    lines.write(0, (None, record(time=hour(0))))
    merge_all(by_position)
    context.spark.sql(f"UPDATE {by_position.merged.layout.sql} SET temperature_2m = 0")
    clean_log(by_position.merged.layout.uri)
    lines.identity = "second"
    with pytest.raises(DataLossError, match="lines:first .* lines:second.* ordered by offset only"):
        propose_progress(by_position)
