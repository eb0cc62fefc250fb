"""What a sink leaves in Azure Data Explorer if the service is away or slow, or if two runs write at once."""

import sys
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.declaration import DataExplorerTable
from lakehouse.errors import LakehouseError, SettingsError, SetupError, TableError
from lakehouse_tests.helpers.tables.change_rows import ExplorerTarget, change_sales, settings_of
from lakehouse_tests.helpers.tables.exported import delete, merge


@pytest.mark.parametrize("executes_last", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_connection_that_is_cut_anywhere_loses_and_doubles_nothing(
    explorer: ExplorerTarget, *, is_first: bool, executes_last: bool
) -> None:
    if not is_first:
        explorer.update()
        change_sales(explorer)
    start, service = deepcopy(explorer.service.tables), explorer.service
    service.executes_last, service.requests = executes_last, []
    explorer.update()
    for number in range(len(service.requests)):
        service.tables, service.requests, service.messages = deepcopy(start), [], []
        service.cut_after = number
        with pytest.raises(LakehouseError):
            explorer.update()
        service.cut_after = None
        explorer.update()
        service.ingest()
        explorer.require_every_change_once()


@pytest.mark.parametrize("has_news", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_run_within_another_one_loses_and_doubles_nothing(
    explorer: ExplorerTarget, *, is_first: bool, has_news: bool
) -> None:
    if not is_first:
        explorer.update()
        change_sales(explorer)
    start, service = deepcopy(explorer.service.tables), explorer.service
    service.requests = []
    explorer.update()
    for number in range(len(service.requests)):
        service.tables, service.requests, service.messages = deepcopy(start), [], []

        def run_another(_: str, number: int = number) -> None:
            if len(service.requests) == number:
                service.before_request = lambda _: None
                if has_news:
                    merge(explorer.settings, ("a", float(number), None))
                run_once(explorer)

        service.before_request = run_another
        run_once(explorer)
        explorer.update()
        service.ingest()
        explorer.require_every_change_once(min(row["_version"] for row in explorer.rows))


def run_once(explorer: ExplorerTarget) -> None:
    with suppress(TableError):  # another run sends other rows
        explorer.update()


def test_two_runs_that_recorded_one_range_lead_to_all_rows(explorer: ExplorerTarget) -> None:
    """The service may check a tag and append in two steps, so both rows of the progress are there."""
    explorer.update()
    service, messages = explorer.service, list[dict[str, object]]()
    service.is_atomic = False

    def run_another(text: str) -> None:
        if ".append" in text:
            service.before_request = lambda _: None
            explorer.update()
            merge(explorer.settings, ("d", 4.0, None))

    merge(explorer.settings, ("a", 1.5, None))
    service.before_request = run_another
    run_once(explorer)
    messages, service.messages = service.messages, []
    assert "two runs recorded the same range" in (explorer.delivery.find_news() or "")
    assert explorer.update().kind == "whole"
    service.messages = messages
    service.ingest()
    explorer.require_current_rows()
    assert explorer.delivery.find_news() is None


def test_a_materialized_view_is_named_before_a_new_table_takes_the_name(explorer: ExplorerTarget) -> None:
    explorer.update()
    explorer.service.views = ["sales_newest"]
    before = deepcopy(explorer.service.tables)
    with pytest.raises(TableError, match=r"Run .drop materialized-view sales_newest, run the sink"):
        explorer.update(whole=True)
    assert explorer.service.tables == before
    merge(explorer.settings, ("a", 1.5, None))
    assert explorer.update().kind == "changes"


def test_messages_that_come_twice_and_in_another_order_are_ingested_once(explorer: ExplorerTarget) -> None:
    explorer.service.repeats = explorer.service.reorders = True
    explorer.update()
    change_sales(explorer)
    explorer.update()
    explorer.require_every_change_once()


@pytest.mark.parametrize("is_first", [False, True])
def test_parts_that_are_ingested_after_their_run_change_nothing(explorer: ExplorerTarget, *, is_first: bool) -> None:
    """The range is abandoned: late parts must not bring back rows that are deleted since."""
    if not is_first:
        explorer.update()
    merge(explorer.settings, ("z", 1.0, None))
    explorer.service.ingests = False
    with pytest.raises(TableError, match=r"parts were not ingested in 0.5 seconds. Nothing is lost"):
        explorer.update()
    late_parts, explorer.service.messages = explorer.service.messages, []
    delete(explorer.settings, "id = 'z'")
    explorer.service.ingests = True
    assert explorer.update(whole=True).kind == "whole"
    explorer.service.messages = late_parts
    explorer.service.ingest()
    explorer.require_current_rows()
    merge(explorer.settings, ("a", 5.0, None))
    assert explorer.update().kind == "changes"
    explorer.require_current_rows()


def test_a_slow_service_is_asked_again_and_not_sent_to_again(explorer: ExplorerTarget) -> None:
    explorer.service.ingests = False
    for _ in range(2):
        with pytest.raises(TableError, match="3 of 3 parts were not ingested"):
            explorer.update()
    explorer.service.ingest()
    queued = explorer.service.requests.count("queue")
    explorer.update()
    assert explorer.service.requests.count("queue") == queued
    explorer.require_every_change_once()


def test_a_busy_service_is_asked_again(explorer: ExplorerTarget) -> None:
    explorer.service.answers = [429, 503, 200, 500]
    explorer.update()
    explorer.require_every_change_once()


def test_a_part_that_the_service_refuses_ends_the_run(explorer: ExplorerTarget) -> None:
    explorer.update()
    mapping = explorer.service.tables["sales"].mappings.popitem()
    merge(explorer.settings, ("a", 5.0, None))
    with pytest.raises(TableError, match="could not ingest a part: BadRequest_MappingReferenceWasNotFound"):
        explorer.update()
    explorer.service.tables["sales"].mappings = dict([mapping])
    explorer.update()
    explorer.require_every_change_once()


def test_rows_that_the_service_lost_or_doubled_lead_to_all_rows(explorer: ExplorerTarget) -> None:
    explorer.update()
    change_sales(explorer)
    service, ingest = explorer.service, explorer.service.ingest

    def double() -> None:
        ingest()
        service.tables["sales"].extents += service.tables["sales"].extents[-1:]

    service.ingest = double  # type: ignore[method-assign]
    assert explorer.update().kind == "whole"
    service.ingest = ingest  # type: ignore[method-assign]
    explorer.require_every_change_once(4)


def test_the_service_that_is_away_is_named_without_its_key(explorer: ExplorerTarget) -> None:
    key = "Application Key=s3cret;Application Client Id=me;Authority Id=us;AAD Federated Security=True"
    away = replace(
        explorer,
        settings=settings_of(
            explorer.settings.home_folder, f"Data Source=https://127.0.0.1:1;Initial Catalog=lake;{key}"
        ),
    )
    with pytest.raises(TableError, match="the service refused") as raised:
        away.update()
    assert "s3cret" not in str(raised.value) + str(raised.value.__context__)
    explorer.service.answers = [200] * 10 + [403] * 9
    with pytest.raises(TableError, match="the service refused") as raised:
        explorer.update()
    assert "key-of-storage" not in str(raised.value)


def test_a_connection_string_that_is_missing_or_of_another_kind_is_refused(
    explorer: ExplorerTarget, tmp_path: Path
) -> None:
    elsewhere = replace(explorer.sink, to=DataExplorerTable("sales", database="elsewhere"))
    with pytest.raises(SettingsError, match="writes to elsewhere, of which LAKEHOUSE_SINK_URLS has no connection"):
        replace(explorer, sink=elsewhere).update()
    other_settings = settings_of(tmp_path, "postgresql://lake:secret@127.0.0.1/shop")
    with pytest.raises(SettingsError, match="has no connection string") as raised:
        replace(explorer, settings=other_settings).update()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("source", ["http://shop.example.com", "https://shop.example.com/;Initial Catalog=", "secret"])
def test_a_connection_string_that_no_client_can_use_is_not_shown(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match="the URL of data_explorer is wrong: it must be Data Source=https") as raised:
        settings_of(tmp_path, f"Data Source={source};Application Key=secret")
    assert "secret" not in str(raised.value)


def test_a_package_that_is_missing_is_named(explorer: ExplorerTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.kusto.data", None)
    with pytest.raises(SetupError, match=r"pip install 'dagster-lakehouse\[data-explorer\]'"):
        explorer.update()
