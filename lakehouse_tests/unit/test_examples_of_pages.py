"""The examples of the pages of ``docs/how-to``: they run in order, and their records become the rows that are shown."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import duckdb
import pytest

import lakehouse
from lakehouse import Column, Generated, Json, Reject, StreamTable, TopicPattern
from lakehouse.cli.show import _left_out_text
from lakehouse.declaration import Rejection
from lakehouse.declaration.inference.proposal import propose
from lakehouse.declaration.sources import start_time
from lakehouse.declaration.sql import computed_sql
from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.reader import FileForm, FilePart, read_part
from lakehouse.decoding.formats import FORMAT_KINDS
from lakehouse.decoding.generated import value_writer
from lakehouse.decoding.one_record import Verdict
from lakehouse.decoding.record_parts import KeyEncoding
from lakehouse.decoding.records import decode
from lakehouse.decoding.written_forms import KeyValues, Written
from lakehouse_tests.helpers.decoding.native import judge
from lakehouse_tests.helpers.pages import names_of_examples, read_page, run_examples
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.tables import redeclare

FILES, GENERATED, REJECT, SEVERAL_TOPICS, START = map(
    read_page, ("files", "generated", "reject", "several-topics", "add-a-topic")
)


def row_in(page: str, first_cell: str) -> list[str]:
    """The cells of the row of a page that begins with this one."""
    return [
        cell.strip() for cell in re.findall(rf"^\| {first_cell} \|.*$", page, re.MULTILINE)[0].strip("|").split("|")
    ]


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ("keys", 3),
        ("envelopes", 5),
        ("other-values", 7),
        ("schemas", 6),
        ("mongodb", 1),
        ("shapes", 4),
        pytest.param("many-rows", 4, marks=pytest.mark.invariant("8.15")),
    ],
)
def test_each_example_of_the_page_prints_what_the_page_shows(page: str, count: int) -> None:
    text = read_page(page)
    examples = re.findall(r"```python\n(.*?)```\n\n```(?:text)?\n(.*?)```", text, re.DOTALL)
    assert len(examples) == text.count("```python") == count
    names = {"__name__": "page", "__file__": "page.py"}
    assert run_examples(page, [example for example, _ in examples], names) == [output for _, output in examples]


def test_the_page_about_keys_names_every_form_of_a_key() -> None:
    names = [name for name in get_args(KeyEncoding) if name != "text"]
    assert [name for name in names if f'`RecordKey("{name}"' not in read_page("keys")] == []


def test_the_page_of_rejections_names_every_reason_of_the_formats_of_the_page() -> None:
    kinds = [kind for kind in FORMAT_KINDS if kind.__name__ in ("Text", "Csv", "Logfmt", "BigEndian", "Compressed")]
    assert len(kinds) == 5
    reasons = (ROOT / "docs" / "reference" / "rejections.md").read_text(encoding="utf-8")
    assert [reason for kind in kinds for reason in kind.reasons if f"| `{reason}` |" not in reasons] == []


def test_new_table_names_the_rows_of_the_logs_of_open_telemetry() -> None:
    names = names_of_examples(read_page("many-rows"))
    path = ", ".join(f'"{name}"' for name in names["logs"].rows_from)
    assert f"({path})" in " ".join(propose([names["record"]]).warnings)


def test_a_record_of_another_table_becomes_the_row_of_the_page() -> None:
    page = read_page("other-tables")
    (record,) = re.findall(r"^`(\{.*?\})`", page, re.MULTILINE)
    row = names_of_examples(page)["balances"].decode(record.encode())
    assert [str(row["id"]), str(row["amount"]), f"{row['at']:%Y-%m-%d %H:%M:%S}"] == row_in(page, "7")


def test_the_declarations_of_the_page_have_the_rules_that_it_describes() -> None:
    names = names_of_examples(REJECT)
    no_rate = Reject("no_rate", when="heartrate <= 0")
    assert names["heart"].rejects == [no_rate]
    unknown = Reject("unknown_patient", unknown="patients", by=["mrn"])
    assert names["heart_of_patients"].rejects == [no_rate, unknown]
    (element,) = re.findall(r"The element `(.*?)`", REJECT)
    row = names["heart"].decode(element.encode())
    assert f"'heartrate' is {row['heartrate']}`" in REJECT
    assert json.loads(element)["heartrate"] == str(row["heartrate"])


def test_an_element_of_the_page_about_files_becomes_its_row() -> None:
    (element,) = re.findall(r"The element `(.*?)`", FILES)
    row = names_of_examples(FILES)["heart_rates"].decode(element.encode())
    time = f"{row['time']:%Y-%m-%d %H:%M:%S.%f}".rstrip("0")
    assert [str(row["device_id"]), time, str(row["heartrate"])] == row_in(FILES, "23")


def test_a_line_after_the_header_of_the_page_becomes_a_row(tmp_path: Path) -> None:
    patients = names_of_examples(FILES)["patients"]
    file = tmp_path / "patients.csv"
    file.write_bytes(b"mrn,name\n7,Ann\n")
    part = FilePart(str(tmp_path), file.name, chunk_hashes(str(tmp_path), file.name))
    parts = read_part(part, FileForm(header=patients.source.header))
    (records,) = [records for records in parts if len(records.values)]
    assert [patients.decode(value.as_py()) for value in records.values] == [{"mrn": 7, "name": "Ann"}]


def test_the_defaults_of_the_page_about_files_are_those_of_the_class() -> None:
    source = names_of_examples(FILES)["heart_rates"].source
    assert (source.settle, source.batch_bytes) == (timedelta(seconds=30), 2**30)
    assert "`settle=timedelta(seconds=30)`" in FILES and "1 GiB together: `batch_bytes`" in FILES


def test_a_record_of_one_of_several_topics_becomes_the_row_of_the_page() -> None:
    names = names_of_examples(SEVERAL_TOPICS, 3)
    record, topic = re.findall(r"The record `(.*?)` of topic `(.*?)`", SEVERAL_TOPICS)[0]
    row = names["orders"].in_topic(topic).decode(record.encode())
    order_id, total, topic_name = row_in(SEVERAL_TOPICS, "7")
    assert row == {"order_id": int(order_id), "total": Decimal(total), "topic": topic_name}
    assert names["topics"].matching(["orders-eu", "old-orders-eu"]) == ["orders-eu"]


def test_the_region_of_the_page_is_computed_from_the_name_of_the_topic() -> None:
    names = names_of_examples(SEVERAL_TOPICS, 2)
    topic, region = re.findall(r"An order of the topic `(.*?)` has the region `(.*?)`", SEVERAL_TOPICS)[0]
    row = names["by_region"].in_topic(topic).decode(b'{"order_id": 7}')
    sql = computed_sql(names["region"].sql, "STRING", {"topic": "STRING"}).replace("`", '"')
    assert duckdb.execute(f"SELECT {sql} FROM (SELECT ? AS topic)", [row["topic"]]).fetchone() == (region,)


def test_the_pattern_of_the_page_excludes_a_topic() -> None:
    (pattern,) = re.findall(r'exclude it:\s+`TopicPattern\("(.*?)"\)', SEVERAL_TOPICS)
    assert TopicPattern(pattern).matching(["orders-old", "orders-older", "orders-us"]) == ["orders-older", "orders-us"]


def verdicts_of_example(index: int, *names: str) -> list[list[Verdict]]:
    """The verdicts of the tables of an example about several types in one topic on its records."""
    section = SEVERAL_TOPICS.partition("## Several types in one topic")[2]
    records = re.findall(r"```json\n(.*?)```", section, re.DOTALL)[index].splitlines()
    declared_names = names_of_examples(section)
    return [[judge(line.encode(), None, declared_names[name].rules()) for line in records] for name in names]


def test_each_table_of_the_page_takes_the_records_of_its_type() -> None:
    orders, refunds = verdicts_of_example(0, "orders", "refunds")
    assert [verdict.reason for verdict in orders] == [None, "filtered", "filtered"]
    assert [verdict.reason for verdict in refunds] == ["filtered", None, "filtered"]
    assert refunds[1].row == {"refund_id": 5, "order_id": 1}


def test_every_condition_of_a_list_on_the_page_must_hold() -> None:
    (stocks,) = verdicts_of_example(1, "stocks")
    assert [verdict.reason for verdict in stocks] == [None, "filtered", "filtered"]


def test_the_record_of_the_page_is_generated_and_becomes_a_row() -> None:
    hashes = names_of_examples(GENERATED)["hashes"]
    (record,) = re.findall(r"such as `(\{.*?\})`", GENERATED)
    number = json.loads(record)["value"]
    assert value_writer(hashes.source.fields, hashes.source.seed)(number) == record.encode()
    assert hashes.decode(record.encode()) == json.loads(record)


def test_the_source_of_the_page_is_the_default_with_its_options_and_the_million_has_a_fixed_number() -> None:
    names = names_of_examples(GENERATED)
    assert names["hashes"].source == Generated()
    assert names["million"].source.count == 1_000_000
    defaults = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", GENERATED, re.MULTILINE))
    assert defaults == {name: f"{getattr(Generated(), name):,}" for name in ("rate", "partitions", "seed")}


def test_the_table_of_the_page_starts_at_its_time() -> None:
    assert start_time(names_of_examples(START)["orders"].start) == datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize("start", ['"2026-11-01T00:00:00Z"', '"latest"', "{0: 1200, 1: 900}"])
def test_every_form_of_a_start_on_the_page_is_accepted(start: str) -> None:
    assert f"| `{start}`" in START
    assert redeclare(names_of_examples(START)["orders"], start=eval(start)).start  # noqa: S307 - the page's own example


def test_the_page_quotes_the_line_of_the_commands() -> None:
    assert _left_out_text({0: [0, 1200], 1: [300, 900]}) in START


NUMBERS = read_page("numbers")
NUMBER_EXAMPLES = re.findall(r"```python\n(.*?)```\n+```json\n(.*?)\n```\n+```text\n(.*?)\n```", NUMBERS, re.DOTALL)


def names_of_number(source: str) -> dict[str, Any]:
    """The names that an example defines; those of the package need no imports in it."""
    public_names = ("Column", "Json", "TextBoolean", "TextNumber", "Time", "ValueOrObject")
    names = {name: getattr(lakehouse, name) for name in public_names}
    run_examples("numbers", [source], names)
    return names


@pytest.mark.parametrize(("source", "record", "row"), NUMBER_EXAMPLES, ids=[record for _, record, _ in NUMBER_EXAMPLES])
def test_each_value_in_another_form_becomes_the_row_that_the_page_shows(source: str, record: str, row: str) -> None:
    names = names_of_number(source)
    columns = [Column("id", "INT", "Which.", required=True), *names["columns"]]
    table = StreamTable("items", "items", "Items.", columns, ["id"], format=names.get("format", Json()))
    values = table.decode(record.encode())
    assert ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in values.items()) == row


def test_every_form_has_an_example_and_the_page_has_no_other_code() -> None:
    assert len(NUMBER_EXAMPLES) == NUMBERS.count("```python") == NUMBERS.count("```text") >= 7
    columns = [column for source, _, _ in NUMBER_EXAMPLES for column in names_of_number(source)["columns"]]
    words = {word for part in Written.__args__ for word in getattr(part, "__args__", (part,))}
    forms = {column.form if isinstance(column.form, str) else type(column.form) for column in columns if column.form}
    on_the_page_of_logs = {"otlp", KeyValues}
    assert forms | on_the_page_of_logs == words


TIME_SECTIONS = re.findall(r"```python\n(.*?)```(.*?)(?=```python|\Z)", read_page("times"), re.DOTALL)
TIMES = [
    (code, record, shown_value)
    for code, text in TIME_SECTIONS
    for record, shown_value in re.findall(r"^\| `(\{.*?\})` \| `?(.*?)`? \|$", text, re.MULTILINE)
]


def declared_column(code: str) -> Column:
    """The column that an example of the page about times declares."""
    names: dict[str, Any] = {}
    run_examples("times", [code], names)
    columns = [value for value in names.values() if isinstance(value, Column)]
    tables = [value for value in names.values() if isinstance(value, StreamTable)]
    (column,) = columns or tables[0].record_columns
    StreamTable("t", "t", "A table.", [column], [])
    return column


def test_the_page_shows_every_kind_of_time() -> None:
    columns = [declared_column(code) for code, _ in TIME_SECTIONS]
    assert {(column.type, column.time.pattern, column.time.epoch, bool(column.time.zone)) for column in columns} >= {
        ("TIMESTAMP", "iso8601", None, False),
        ("TIMESTAMP", "iso8601", None, True),
        ("TIMESTAMP", None, "nanoseconds", False),
        ("DATE", "iso8601", None, False),
    }
    assert any("%z" in (column.time.pattern or "") for column in columns)
    assert len(TIMES) > 20


def decode_record(record: str, column: Column) -> str:
    """The value of the column as the page shows it, or the reason why the record is rejected."""
    try:
        value = decode(record.encode(), (column.field,))[column.name]
    except Rejection as rejection:
        return rejection.reason
    return str(value.replace(tzinfo=None) if isinstance(value, datetime) else value)


@pytest.mark.parametrize(("code", "record", "shown_value"), TIMES, ids=[record for _, record, _ in TIMES])
def test_each_record_of_the_page_about_times_has_the_value_or_the_reason_that_it_shows(
    code: str, record: str, shown_value: str
) -> None:
    assert decode_record(record, declared_column(code)) == shown_value
