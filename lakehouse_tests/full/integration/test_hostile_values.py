"""Values, file names and topic names are data: never a statement, a path, or a misleading line."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from lakehouse import query
from lakehouse.cli import main
from lakehouse.cli.output import print_table
from lakehouse.declaration import Column, Measure, Rollup, StreamTable
from lakehouse.errors import BaseFileError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.sources import OpenMeteoFiles
from lakehouse.kafka import publish, read_topic
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.places import DATA

BASE = DATA / "base"
HOSTILE_VALUES = [
    "'; DROP TABLE prices; --",
    "' OR '1'='1",
    '"; DROP VIEW prices; --',
    "delta.`/etc/passwd`",
    "`x`.`y``z`",
    "${env:HOME} ${spark.app.name} ${x}",
    "{t} {{rollup}} %s %(x)s $x \\1 \\' \\\\",
    "../../../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "line\nbatch 7: read 0, all is well\r\nLag: 0 offsets.",
    "\x1b[2J\x1b]0;owned\x07\x1b[31m",
    "nul\x00 in between",
    "\u202egnidaer si eno on\u202c \u2066x\u2069",
    "\u2028\u2029\ufeff\u200b",
    "[bold]x[/bold] [/nothing] [link=file:///etc/passwd]x[/link] :bomb:",
    "<script>alert(1)</script> {{7*7}}",
    "=cmd|'/c calc'!A0",
    "\U0001f600" * 20 + "e\u0301 \u00e9",
    "x" * 100_000,
    "__HIVE_DEFAULT_PARTITION__",
    "null",
    "NaN",
    " ",
    "",
]
ODD_TOPIC_NAMES = ["my.topic-1_x", "-leading", "..name", "0"]


def prices(topic: str | None = None) -> StreamTable:
    name = f"prices_{uuid4().hex[:8]}"
    columns = [
        Column("shop", "STRING", required=True, doc='It\'s `a` \\ "name" of ${env:HOME}; -- a shop.'),
        Column("price", "DECIMAL(9,2)", between=(0, 100_000), doc="Euro."),
    ]
    measures = {"prices": Measure("count(price)", "BIGINT", "How many.")}
    by_shop = Rollup(f"{name}_by_shop", by=["shop"], measures=measures, doc="By shop, it's `all`.")
    doc = "Prices of ${spark.app.name}; it's `all`."
    return StreamTable(name, topic or f"{name}.of-shops", doc, columns, key=["shop"], rollups=[by_shop])


def line(**fields: object) -> bytes:
    return json.dumps({"price": 1, **fields}).encode()


@pytest.fixture(scope="module")
def odd_home(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings whose tables are below a path with every kind of special character."""
    tables = tmp_path_factory.mktemp("odd") / 'it\'s `my` ${env:HOME} home; -- $HOME é "1" {x}'
    return Settings(home=broker.home, tables=str(tables), _env_file=None)


@pytest.fixture
def stream(spark: SparkSession, odd_home: Settings) -> Iterator[Stream]:
    stream = Stream.of(spark, odd_home, prices())
    yield stream
    shutil.rmtree(odd_home.tables_root, ignore_errors=True)


@pytest.mark.invariant("13.4", "13.5")
def test_hostile_values_are_stored_unchanged(stream: Stream) -> None:
    table = stream.table
    assert publish(stream.settings, table, [line(shop=value) for value in HOSTILE_VALUES]) == len(HOSTILE_VALUES)
    stream.merge()
    changed_lines = [line(shop=value, price=2) for value in HOSTILE_VALUES]
    assert publish(stream.settings, table, changed_lines) == len(HOSTILE_VALUES)
    (outcome,) = stream.merge()
    assert outcome.entry.metrics.updated == len(HOSTILE_VALUES)
    stream.refresh()
    rows = stream.spark.read.format("delta").load(stream.uri).select("shop", "price").collect()
    assert sorted(row.shop for row in rows) == sorted(HOSTILE_VALUES)
    assert {int(row.price) for row in rows} == {2}
    rollup = stream.spark.read.format("delta").load(stream.settings.table_uri(table.rollups[0].name)).collect()
    assert sorted((row.shop, row.prices) for row in rollup) == sorted((value, 1) for value in HOSTILE_VALUES)
    answer = query.query(stream.settings, f"SELECT shop FROM {table.name}")
    assert sorted(row[0] for row in answer.rows) == sorted(HOSTILE_VALUES)
    stream.assert_accounted()


@pytest.mark.invariant("13.5")
def test_the_detail_of_a_rejected_record_is_printable(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    """In the stored detail, and in the table that a command prints."""
    invalid_values = [value for value in HOSTILE_VALUES if value]
    lines = [line(shop="x", price=value) for value in invalid_values] + [
        f'{{"{"a" * 9}\\u001b[2J": 1, "a": 2, "a": 3}}'.encode()
    ]
    stream.send_and_merge(*lines, b'{"\\u001b[2J\\u202e": 1, "\\u001b[2J\\u202e": 2}', b"\x1b[2J", b'["\x1b[2J"]')
    rejected_rows = stream.spark.read.format("delta").load(stream.settings.table_uri(stream.table.rejected_name))
    details = [row.detail for row in rejected_rows.collect()]
    assert len(details) == len(lines) + 3
    assert [detail for detail in details if not detail.isprintable()] == []
    assert max(map(len, details)) <= 500
    print_table(
        ["value", "detail"], [*((value, "") for value in HOSTILE_VALUES[:16]), *(("", detail) for detail in details)]
    )
    output = capsys.readouterr().out
    assert [text for text in output.split("\n") if not text.isprintable()] == []
    assert "[/nothing]" in output


@pytest.mark.invariant("13.5")
@pytest.mark.parametrize("topic", ODD_TOPIC_NAMES)
def test_an_odd_topic_name_is_only_a_name(broker: Settings, topic: str) -> None:
    """The test of hostile values reads such a topic with Spark."""
    table = prices(f"{topic}{uuid4().hex[:6]}")
    assert publish(broker, table, [line(shop="a")]) == 1
    assert sum(read_topic(broker, table.topic).end.values()) == 1


def hostile_files(folder: Path) -> list[Path]:
    """Files with hostile names; the last name is not valid text."""
    names = [
        b"'; DROP TABLE x; --.json",
        b"${env:HOME}`.json",
        b"\x1b[2J\nLag: 0.json",
        b"\xe2\x80\xae[x].json",
        b"\xff.json",
    ]
    return [Path(os.fsdecode(os.fsencode(folder) + b"/" + name)) for name in names]


@pytest.mark.invariant("6.5", "13.5")
def test_a_base_file_of_any_name_is_loaded_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A name that is not valid text is refused; an error shows every name in one line."""
    fields = temperatures.fields
    *valid_files, invalid_file = hostile_files(tmp_path)
    for file in valid_files:
        shutil.copyfile(next(BASE.glob("*.json")), file)
    rows = OpenMeteoFiles(tmp_path).read(spark, tmp_path, fields)
    assert sorted(row._file for row in rows.select("_file").distinct().collect()) == sorted(
        file.name for file in valid_files
    )
    shutil.copyfile(valid_files[0], invalid_file)
    for refused_file in (invalid_file, valid_files[2]):
        if refused_file != invalid_file:
            refused_file.write_text("none")
        with pytest.raises(BaseFileError) as error_info:
            OpenMeteoFiles(tmp_path).read(spark, tmp_path, fields)
        assert str(error_info.value).isprintable()
        invalid_file.unlink(missing_ok=True)


@pytest.mark.invariant("13.5")
def test_publish_shows_any_file_name_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in hostile_files(tmp_path):
        assert main.run(["publish", "temperatures", str(file)]) == 2
        output = capsys.readouterr().err
        assert len(output.splitlines()) == 1
        assert output[:-1].isprintable()
        assert main.run(["load-base", "temperatures", str(file)]) == 2
        assert capsys.readouterr().err[:-1].isprintable()
