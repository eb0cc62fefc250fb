"""Unmapped fields of records: the most common ones are listed, and the others are counted."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakehouse.cli.merge_verbs import show_outcomes
from lakehouse.declaration import Column, UnmappedFields
from lakehouse.defs.figures import count_records
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.counts import MAX_UNMAPPED_FIELDS
from lakehouse.ingest.outcomes import Outcome, describe_omitted_fields, most_common_fields
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger


def outcome(fields: int, prefix: str = "f") -> Outcome:
    """A batch whose records have this number of unmapped fields."""
    commit = Commit(kind="batch", number=1, attempt="", table_version=0, read=5)
    unmapped_fields = {f"{prefix}{n}": 1 for n in range(fields)}
    return Outcome(Entry(1, datetime.now(UTC), commit, Metrics()), None, 0, 0, 1.0, unmapped_fields=unmapped_fields)


@pytest.mark.parametrize(
    ("fields", "text"), [(0, ""), (20, ""), (21, "1 more"), (MAX_UNMAPPED_FIELDS, "at least 80 more")]
)
def test_fields_that_are_not_listed_are_counted(fields: int, text: str) -> None:
    outcomes = [outcome(fields), outcome(fields)]
    assert len(most_common_fields(outcomes)) == min(fields, 20)
    assert describe_omitted_fields(outcomes) == text


def test_fields_of_several_batches_are_counted_once() -> None:
    assert describe_omitted_fields([outcome(15), outcome(15, "g"), outcome(15)]) == "10 more"


def test_the_command_line_shows_how_many_more_fields_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    show_outcomes(temperatures, [outcome(23)], [], json=False)
    assert "Fields that no column reads: f0 (1 records), " in (text := " ".join(capsys.readouterr().out.split()))
    assert ", f19 (1 records), and 3 more." in text
    show_outcomes(temperatures, [outcome(2)], [], json=False)
    assert "f0 (1 records), f1 (1 records)." in " ".join(capsys.readouterr().out.split())


def test_the_command_line_names_the_column_that_stores_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    rest = Column("rest", "STRING", "", source=UnmappedFields())
    show_outcomes(replace(temperatures, base=None, columns=[*temperatures.columns, rest]), [outcome(1)], [], json=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "Fields stored in column rest: f0 (1 records)." in text and "no column reads" not in text


def test_a_run_reports_how_many_more_fields_there_are() -> None:
    metadata = count_records([outcome(23)], Ledger("t"), [])
    assert len(metadata["other_fields"].records) == 20
    assert metadata["other_fields_unnamed"] == "3 more"
    assert "other_fields_unnamed" not in count_records([outcome(20)], Ledger("t"), [])
