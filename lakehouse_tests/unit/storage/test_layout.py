"""The table properties that are corrected."""

from datetime import timedelta

import pytest

from lakehouse.storage.layout import CHANGE_DATA, COLUMNS_PROPERTY, STATISTICS, Layout, TableColumn

LOG = "delta.logRetentionDuration"
FILES = "delta.deletedFileRetentionDuration"
WEEK, MONTH = "interval 604800 seconds", "interval 2592000 seconds"


def correct(retention: timedelta = timedelta(days=7), **stored_properties: str) -> dict[str, str]:
    """Return the corrections for a table with these retentions of its log and its deleted files."""
    table = Layout("t", "/t", "", (), retention=retention)
    return table.corrections(
        {LOG: stored_properties.get("log", MONTH), FILES: stored_properties.get("files", WEEK), CHANGE_DATA: "false"}
    )


@pytest.mark.invariant("1.18")
@pytest.mark.parametrize(
    "interval",
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
def test_a_longer_retention_of_the_log_is_not_corrected(interval: str) -> None:
    assert correct(log=interval) == {}


def test_only_a_conflict_in_the_merged_table_is_found_by_its_audit() -> None:
    merged, derived = (Layout(name, "/t", "", (), declaration_name="t") for name in ("t", "t_changes"))
    assert merged.conflict_advice.endswith("lakehouse audit t")
    assert derived.conflict_advice == "Nothing was written. Run it again."


@pytest.mark.invariant("1.18")
@pytest.mark.parametrize("interval", ["interval 29 days", "interval 1 hour", "interval -90 days", "forever", ""])
def test_a_shorter_or_unknown_retention_of_the_log_becomes_thirty_days(interval: str) -> None:
    assert correct(log=interval) == {LOG: MONTH}


@pytest.mark.invariant("1.18")
def test_a_longer_declared_retention_also_applies_to_the_log() -> None:
    year = "interval 31536000 seconds"
    assert correct(timedelta(days=365), log="interval 90 days") == {LOG: year, FILES: year}


@pytest.mark.invariant("1.18")
@pytest.mark.parametrize("interval", ["interval 6 days", "interval 90 days", "interval 7 days"])
def test_deleted_files_are_kept_exactly_as_long_as_declared(interval: str) -> None:
    assert correct(files=interval) == {FILES: WEEK}


@pytest.mark.invariant("1.18")
def test_missing_properties_are_set() -> None:
    table = Layout("t", "/t", "", (), change_data=True)
    assert table.corrections({}) == table.enforced_properties == {LOG: MONTH, FILES: WEEK, CHANGE_DATA: "true"}


@pytest.mark.parametrize(
    ("stored_statistics", "declared_statistics"),
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
def test_statistics_columns_are_corrected_unless_they_include_a_column_of_another_program(
    stored_statistics, declared_statistics
) -> None:
    columns = [TableColumn(name, "BIGINT", "") for name in ("id", "a", "b")]
    table = Layout(
        "t",
        "/t",
        "",
        columns,
        statistics=["id"] if declared_statistics is None else declared_statistics,
        change_data=True,
    )
    corrections = table.corrections(table.properties | {STATISTICS: stored_statistics, COLUMNS_PROPERTY: "a,b,gone,id"})
    assert corrections == ({STATISTICS: ",".join(declared_statistics)} if declared_statistics else {})


def test_the_order_of_statistics_columns_does_not_matter() -> None:
    columns = [TableColumn(name, "BIGINT", "") for name in ("id", "a")]
    table = Layout("t", "/t", "", columns, statistics=["id", "a"], change_data=True)
    assert table.corrections(table.properties | {STATISTICS: "a,id"}) == {}
