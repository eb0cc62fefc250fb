"""What the API answers: rows, aggregates, changes and status, each of one version of a table."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_tests.helpers.api_servers import ApiServer, api_server
from lakehouse_tests.helpers.tables.feeds import append_changes
from lakehouse_tests.helpers.tables.logs import WrittenTable

NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)
TYPES = {
    "id": pa.int64(),
    "place": pa.string(),
    "price": pa.decimal128(9, 2),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "ratio": pa.float64(),
    "is_open": pa.bool_(),
    "photo": pa.binary(),
    "tags": pa.list_(pa.string()),
    "limit": pa.int32(),
}


def row(number: int, **values: Any) -> dict[str, Any]:
    """A row with this number, in which some values are other ones, and a value of each common type."""
    at = NOON + number * timedelta(days=20)
    columns = [number, "Rome" if number % 2 else "Oslo", Decimal(number) / 4, at, at.date(), number / 2]
    return dict(zip(TYPES, [*columns, number > 2, b"\xff", ["x"], number % 3], strict=True)) | values


FIRST = [row(number) for number in range(5)]
SECOND = [row(5, ratio=float("nan")), dict.fromkeys(TYPES) | {"id": 6, "place": ""}]


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema(TYPES))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table ``items`` has five rows in version 0 and seven in version 1; ``numbers`` has a change feed."""
    tables = tmp_path_factory.mktemp("home") / "tables"
    write_deltalake(tables / "items", table_of(FIRST))
    write_deltalake(tables / "items", table_of(SECOND), mode="append")
    write_deltalake(tables / "numbers", pa.table({"id": [1]}))
    append_changes(tables / "numbers", [(1, "insert", 0, 10), (2, "insert", 0, 20)], source_version=0)
    append_changes(tables / "numbers", [(1, "update", 3, 11)], source_version=4)
    WrittenTable.create(tables / "temperatures", "temperatures").batches(2)
    return tables


@pytest.fixture(scope="module")
def server(tables: Path) -> Iterator[ApiServer]:
    with api_server(tables.parent, LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1", TZ="America/New_York") as server:
        yield server


def ids(answer: dict[str, Any]) -> list[int]:
    return [values["id"] for values in answer["rows"]]


def test_the_server_reports_that_it_answers(server: ApiServer) -> None:
    assert server.read("/health") == {"status": "ok"}


def test_the_list_has_every_table_and_its_version(server: ApiServer, tables: Path) -> None:
    versions = {table["name"]: table["version"] for table in server.read("/tables")["tables"]}
    assert versions.keys() == {folder.name for folder in tables.iterdir() if folder.is_dir()}
    assert versions.items() >= {"items": 1, "numbers": 0, "numbers_changes": 1, "temperatures": 2}.items()


def test_a_table_has_its_columns_and_the_rows_of_its_version(server: ApiServer) -> None:
    facts = server.read("/tables/items")
    assert (facts["table"], facts["version"], facts["rows"]) == ("items", 1, 7)
    assert datetime.fromisoformat(facts["committed_at"]).tzinfo
    types = {column["name"]: column["type"] for column in facts["columns"]}
    assert list(types) == list(TYPES)
    assert (types["price"], types["at"], types["id"]) == ("DECIMAL(9,2)", "TIMESTAMP WITH TIME ZONE", "BIGINT")
    assert server.read("/tables/items", version=0)["rows"] == 5


def test_values_are_exact_and_times_are_in_utc(server: ApiServer) -> None:
    answer = server.read("/tables/items/rows", id=5)
    assert (answer["table"], answer["version"], answer["next"]) == ("items", 1, None)
    (values,) = answer["rows"]
    assert values == {
        "id": 5,
        "place": "Rome",
        "price": "1.25",
        "at": "2023-04-11T12:00:00Z",
        "day": "2023-04-11",
        "ratio": "NaN",
        "is_open": True,
        "photo": "/w==",
        "tags": ["x"],
        "limit": 2,
    }


def test_null_is_null_and_an_empty_text_is_a_text(server: ApiServer) -> None:
    (values,) = server.read("/tables/items/rows", place="")["rows"]
    assert values == dict.fromkeys(TYPES) | {"id": 6, "place": ""}


@pytest.mark.parametrize(
    ("parameters", "expected_ids"),
    [
        ({"id": "3"}, [3]),
        ({"id": ["3", "1", "99"]}, [1, 3]),
        ({"id": "99999999999999999999999999"}, []),
        ({"place": "Rome", "is_open": "true"}, [3, 5]),
        ({"price": "0.25"}, [1]),
        ({"price": "0.2500"}, [1]),
        ({"ratio": "1.5"}, [3]),
        ({"ratio": "NaN"}, [5]),
        ({"day": "2023-01-21"}, [1]),
        ({"at": "2023-01-21T13:00:00+01:00"}, [1]),
        ({"at.from": "2023-01-21T12:00:00Z", "at.to": "2023-03-02T12:00:00Z"}, [1, 2]),
        ({"day.from": "2023-03-02"}, [3, 4, 5]),
        ({"price.from": "0.5", "price.to": "1"}, [2, 3]),
        ({"limit.is": "1", "limit": "5"}, [1, 4]),
        ({"place": "x' OR '1'='1"}, []),
    ],
    ids=str,
)
def test_filters_choose_rows(server: ApiServer, parameters: dict[str, Any], expected_ids: list[int]) -> None:
    assert ids(server.read("/tables/items/rows", **parameters)) == expected_ids


def test_rows_are_ordered_by_columns_with_null_last(server: ApiServer) -> None:
    assert ids(server.read("/tables/items/rows", order=["-place", "-price"])) == [5, 3, 1, 4, 2, 0, 6]
    assert ids(server.read("/tables/items/rows", order="-at"))[-1] == 6


def test_an_answer_has_the_chosen_columns(server: ApiServer) -> None:
    assert server.read("/tables/items/rows", columns=["price", "id"], id=1)["rows"] == [{"price": "0.25", "id": 1}]


def read_pages(server: ApiServer, path: str, **parameters: Any) -> list[dict[str, Any]]:
    answers = [server.read(path, **parameters)]
    while answers[-1]["next"]:
        answers.append(server.read(answers[-1]["next"]))
    return answers


def test_pages_have_every_row_once(server: ApiServer) -> None:
    pages = read_pages(server, "/tables/items/rows", limit=2, order="place")
    assert [len(page["rows"]) for page in pages] == [2, 2, 2, 1]
    assert sorted(id_ for page in pages for id_ in ids(page)) == list(range(7))


def test_the_next_page_is_of_the_version_of_the_first(server: ApiServer, tables: Path) -> None:
    write_deltalake(tables / "changing", table_of(FIRST))
    first = server.read("/tables/changing/rows", limit=3)
    DeltaTable(tables / "changing").delete("id < 4")
    second = server.read(first["next"])
    assert (second["version"], ids(first) + ids(second)) == (0, [0, 1, 2, 3, 4])
    assert ids(server.read("/tables/changing/rows")) == [4]


def test_aggregates_by_place_and_month_are_those_of_the_rows(server: ApiServer) -> None:
    answer = server.read("/tables/items/aggregates", column="price", by="place", period="month", time="at")
    groups = {(group["group"]["place"], group["period"]): group for group in answer["groups"]}
    figures = {"rows": 1, "count": 1, "minimum": "0.25", "maximum": "0.25", "average": 0.25}
    january = groups["Rome", "2023-01-01T00:00:00Z"]
    assert january == {"group": {"place": "Rome"}, "period": "2023-01-01T00:00:00Z", **figures}
    assert next(iter(groups)) == ("", None)
    assert groups["", None]["count"] == 0 and groups["", None]["average"] is None
    assert sum(group["rows"] for group in groups.values()) == 7


@pytest.mark.parametrize(("period", "count"), [("hour", 5), ("day", 5), ("month", 3), ("year", 1)])
def test_a_period_is_in_utc(server: ApiServer, period: str, count: int) -> None:
    parameters = {"column": "id", "period": period, "time": "at", "version": 0}
    assert len(server.read("/tables/items/aggregates", **parameters)["groups"]) == count


def test_aggregates_without_groups_are_one_row_also_of_no_row(server: ApiServer) -> None:
    (group,) = server.read("/tables/items/aggregates", column="ratio", version=0)["groups"]
    assert group == {
        "group": {},
        "period": None,
        "rows": 5,
        "count": 5,
        "minimum": 0.0,
        "maximum": 2.0,
        "average": 1.0,
    }
    (group,) = server.read("/tables/items/aggregates", column="ratio", id=99)["groups"]
    assert (group["rows"], group["minimum"]) == (0, None)


def test_columns_may_have_any_name(server: ApiServer, tables: Path) -> None:
    columns = {"g0": [1, 2, 2], "rows": ["a", "b", "b"], "count": [1.0, 2.0, 4.0]}
    write_deltalake(tables / "names", pa.table(columns), mode="overwrite")
    answer = server.read("/tables/names/aggregates", column="count", by="rows")
    figures = [(group["group"], group["rows"], group["average"]) for group in answer["groups"]]
    assert figures == [({"rows": "a"}, 1, 1.0), ({"rows": "b"}, 2, 3.0)]


def test_the_average_of_numbers_whose_sum_has_too_many_digits_is_a_double(server: ApiServer, tables: Path) -> None:
    numbers = pa.array([Decimal("9" * 38)] * 3, pa.decimal128(38, 0))
    write_deltalake(tables / "long_numbers", pa.table({"number": numbers}), mode="overwrite")
    (group,) = server.read("/tables/long_numbers/aggregates", column="number")["groups"]
    assert (group["maximum"], group["average"]) == ("9" * 38, 1e38)


def test_groups_have_pages(server: ApiServer) -> None:
    pages = read_pages(server, "/tables/items/aggregates", column="id", by="id", limit=3)
    assert [group["group"]["id"] for page in pages for group in page["groups"]] == list(range(7))


def test_the_only_column_with_times_is_that_of_the_period(server: ApiServer, tables: Path) -> None:
    write_deltalake(tables / "readings", pa.table({"n": [1, 2], "on": [date(2020, 1, 1), date(2021, 1, 1)]}))
    groups = server.read("/tables/readings/aggregates", column="n", period="year")["groups"]
    assert [group["period"][:10] for group in groups] == ["2020-01-01", "2021-01-01"]


def test_changes_are_those_after_a_version_up_to_that_of_the_feed(server: ApiServer) -> None:
    answer = server.read("/tables/numbers/changes", since=-1)
    assert (answer["table"], answer["version"], answer["feed_version"]) == ("numbers", 4, 1)
    assert [(change["id"], change["change"]) for change in answer["changes"]] == [
        (1, "insert"),
        (2, "insert"),
        (1, "update"),
    ]
    assert [change["value_after"] for change in server.read("/tables/numbers/changes", since=0)["changes"]] == [11]
    assert server.read("/tables/numbers/changes", since=4)["changes"] == []
    assert server.read("/tables/numbers/changes", since=-1, id=2)["changes"][0]["value_after"] == 20


def test_pages_of_changes_are_of_one_version_of_the_feed(server: ApiServer, tables: Path) -> None:
    table = tables / "followed"
    write_deltalake(table, pa.table({"id": [1]}))
    append_changes(table, [(id_, "insert", 0, id_) for id_ in range(3)], source_version=0)
    first = server.read("/tables/followed/changes", since=-1, limit=2)
    append_changes(table, [(-1, "insert", 1, 0)], source_version=1)
    second = server.read(first["next"])
    assert [change["id"] for change in first["changes"] + second["changes"]] == [0, 1, 2]
    assert (second["version"], second["next"]) == (0, None)
    assert server.read("/tables/followed/changes", since=second["version"])["version"] == 1


def test_changes_of_a_table_that_was_created_again_begin_with_it(server: ApiServer, tables: Path) -> None:
    write_deltalake(tables / "again", pa.table({"id": [1]}))
    append_changes(tables / "again", [(1, "insert", 5, 1)], source_version=5)
    old_id = server.read("/tables/again/changes", since=-1)["table_id"]
    for file in (tables / "again").rglob("*.json"):
        file.unlink()
    write_deltalake(tables / "again", pa.table({"id": [2]}))
    append_changes(tables / "again", [(2, "insert", 0, 2)], source_version=0)
    answer = server.read("/tables/again/changes", since=-1)
    assert answer["table_id"] != old_id
    assert [change["id"] for change in answer["changes"]] == [2]


def test_the_status_has_the_fields_of_the_command_also_without_a_broker(server: ApiServer) -> None:
    answer = server.read("/tables/temperatures/status")
    assert (answer["table"], answer["version"], answer["lag"], answer["up_to_date"]) == ("temperatures", 2, None, False)
    assert answer["partitions"][0]["progress"] == 2
    assert answer["last_commit"]["number"] == 2
    assert "127.0.0.1:1" in answer["problem"]


@pytest.mark.parametrize(
    "path", ["/tables", "/tables/items", "/tables/items/rows", "/tables/items/aggregates?column=id", "/health"]
)
def test_a_client_that_has_the_answer_gets_304(server: ApiServer, path: str) -> None:
    tag = server.request(path).headers["ETag"]
    for sent_tags in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        response = server.request(path, headers={"If-None-Match": sent_tags})
        assert (response.status_code, response.content, response.headers["ETag"]) == (304, b"", tag)
    assert server.request(path, headers={"If-None-Match": '"x"'}).status_code == 200


def test_the_etag_changes_with_the_version(server: ApiServer) -> None:
    tags = [server.request(f"/tables/items?version={version}").headers["ETag"] for version in (0, 1)]
    assert [tag.split("-")[0] for tag in tags] == ['"0', '"1']
