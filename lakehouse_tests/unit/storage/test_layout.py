"""Which properties of a table are set right."""

from datetime import timedelta

import pytest

from lakehouse.storage.layout import CHANGE_DATA, DECLARED, STATISTICS, Layout, TableColumn

pytestmark = pytest.mark.invariant(1, 10)
LOG = "delta.logRetentionDuration"
FILES = "delta.deletedFileRetentionDuration"
WEEK, MONTH = "interval 604800 seconds", "interval 2592000 seconds"


def corrected(retention: timedelta = timedelta(days=7), **stands: str) -> dict[str, str]:
    """What is set right of a table whose log, or deleted files, are kept so long."""
    table = Layout("t", "/t", "", (), retention=retention)
    return table.corrections({LOG: stands.get("log", MONTH), FILES: stands.get("files", WEEK), CHANGE_DATA: "false"})


@pytest.mark.parametrize(
    "kept",
    [
        MONTH,
        "interval 30 days",
        "90 days",
        "interval 4 weeks 3 DAYS",
        "721 hours",
        "60  days",
        "interval 5184000000 milliseconds",
    ],
)
def test_a_log_that_is_kept_longer_than_it_has_to_be_stays_so(kept: str) -> None:
    assert corrected(log=kept) == {}


@pytest.mark.parametrize("kept", ["interval 29 days", "interval 1 hour", "interval -90 days", "for ever", ""])
def test_a_log_that_is_kept_less_or_nobody_knows_how_long_is_kept_thirty_days(kept: str) -> None:
    assert corrected(log=kept) == {LOG: MONTH}


def test_a_longer_declared_retention_holds_for_the_log_as_well() -> None:
    year = "interval 31536000 seconds"
    assert corrected(timedelta(days=365), log="interval 90 days") == {LOG: year, FILES: year}


@pytest.mark.parametrize("kept", ["interval 6 days", "interval 90 days", "interval 7 days"])
def test_deleted_files_are_kept_as_long_as_is_declared_and_no_longer(kept: str) -> None:
    assert corrected(files=kept) == {FILES: WEEK}


def test_what_a_new_table_lacks_is_set() -> None:
    lacks = Layout("t", "/t", "", (), change_data=True)
    assert lacks.corrections({}) == lacks.lasting == {LOG: MONTH, FILES: WEEK, CHANGE_DATA: "true"}


@pytest.mark.parametrize(
    ("stands", "wanted"),
    [
        ("id", ["id", "b"]),
        ("id,a", ["id", "b"]),
        ("id,a", ["id"]),
        ("id,gone", ["id"]),
        ("id,theirs", None),
        ("", None),
        ("id", []),
    ],
)
def test_columns_with_statistics_are_those_declared_unless_somebody_named_one_of_theirs(stands, wanted) -> None:
    columns = [TableColumn(name, "BIGINT", "") for name in ("id", "a", "b")]
    table = Layout("t", "/t", "", columns, statistics=["id"] if wanted is None else wanted, change_data=True)
    found = table.corrections(table.properties | {STATISTICS: stands, DECLARED: "a,b,gone,id"})
    assert found == ({STATISTICS: ",".join(wanted)} if wanted else {})


def test_in_which_order_they_stand_decides_nothing() -> None:
    columns = [TableColumn(name, "BIGINT", "") for name in ("id", "a")]
    table = Layout("t", "/t", "", columns, statistics=["id", "a"], change_data=True)
    assert table.corrections(table.properties | {STATISTICS: "a,id"}) == {}
