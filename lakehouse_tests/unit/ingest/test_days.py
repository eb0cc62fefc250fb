"""The ranges of days, and days whose records may have expired: arithmetic on offsets, times and commits."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import LakehouseError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.replay import (
    DayRange,
    Period,
    join_consecutive_days,
    join_ranges,
    ranges_of_period,
    require_unexpired,
)
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.positions import Positions, Range, SourceId
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.sensors import MERGED, write_log
from lakehouse_tests.helpers.tables.tables import redeclare

TABLE = redeclare(temperatures, name="orders", topic="orders")
SOURCE = SourceId("kafka", "c/t")
RANGES = st.builds(lambda p, start, span: Range(p, start, start + span), *(st.integers(0, top) for top in (2, 30, 9)))


def day(number: int) -> date:
    return date(2026, 8, number)


def noon(number: int) -> datetime:
    return datetime(2026, 8, number, 12, tzinfo=UTC)


def offsets(ranges: Sequence[Range]) -> list[tuple[int, int]]:
    return [(part.partition, offset) for part in ranges for offset in range(part.start, part.end)]


def test_days_in_a_row_are_one_period() -> None:
    days = [day(3), day(1), day(2), day(1), day(7)]
    assert join_consecutive_days(days) == [Period(day(1), day(4)), Period(day(7), day(8))]


def test_a_range_covers_the_records_of_days_in_a_row_if_their_times_are_out_of_order() -> None:
    parts = [DayRange(0, day(2), 0, 7), DayRange(0, day(1), 5, 9), DayRange(1, day(1), 4, 4), DayRange(1, day(9), 0, 8)]
    assert list(ranges_of_period(parts, Period(day(1), day(3)))) == [Range(0, 0, 10), Range(1, 4, 5)]
    assert list(ranges_of_period(parts, Period(day(3), day(4)))) == []


@given(st.lists(RANGES, max_size=8))
def test_joined_ranges_have_each_offset_once_and_none_is_empty(ranges: list[Range]) -> None:
    joined_ranges = join_ranges(ranges)
    assert offsets(joined_ranges) == sorted(set(offsets(ranges)))
    assert all(part.span for part in joined_ranges)


def require(
    folder: Path, first_day: date, earliest: Positions, times: Mapping[int, datetime], progress: Positions
) -> None:
    """Require that the days are held, by a table that merged up to ``progress`` in 1970."""
    no_session: Any = None
    settings = Settings(home=folder)
    log = Path(settings.table_uri(TABLE.name), "_delta_log")
    write_log(log, Commit(**MERGED, source=SOURCE, progress=dict(progress)), TABLE.name)
    require_unexpired(TableContext(no_session, settings, TABLE), SOURCE, earliest, times, first_day)


def test_a_partition_from_which_nothing_was_deleted_holds_all_days(tmp_path: Path) -> None:
    require(tmp_path, day(1), {0: 0, 1: 0}, {0: noon(5)}, {0: 10, 1: 0})


def test_days_after_the_first_record_that_is_left_are_held(tmp_path: Path) -> None:
    require(tmp_path, day(6), {0: 4}, {0: noon(5)}, {0: 3})


def test_a_day_is_held_if_all_deleted_records_were_merged_before_it(tmp_path: Path) -> None:
    """All records of a quiet partition have expired; the commit that merged them is of 1970."""
    require(tmp_path, day(1), {0: 4}, {}, {0: 4})


@pytest.mark.parametrize("first_day", [1, 5])
def test_a_day_whose_records_may_have_expired_fails_with_the_sentence_of_the_gap(
    tmp_path: Path, first_day: int
) -> None:
    earliest, times = {0: 4, 1: 9, 2: 0}, {0: noon(5), 1: noon(4), 2: noon(5)}
    with pytest.raises(LakehouseError) as raised:
        require(tmp_path, day(first_day), earliest, times, {0: 3, 1: 8, 2: 0})
    partitions = ["Partition 0: records from 0 to 3 were deleted"]
    partitions += ["Partition 1: records from 0 to 8 were deleted"] * (first_day == 1)
    assert str(raised.value) == (
        f"{'; '.join(partitions)}, perhaps with records of 2026-08-0{first_day} (topic orders)."
        " orders keeps their rows, and they cannot be replayed. Replay days from 2026-08-06 on."
    )


def test_the_page_shows_the_error_of_an_expired_day(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "restore.md").read_text(encoding="utf-8")
    with pytest.raises(LakehouseError) as raised:
        require(tmp_path, day(1), {0: 5000}, {0: noon(2)}, {0: 4999})
    assert str(raised.value) in " ".join(page.split())
