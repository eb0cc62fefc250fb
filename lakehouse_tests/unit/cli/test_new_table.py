"""``lakehouse new-table``: a file that runs as it is, from records as they are."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.cli import main
from lakehouse.declaration import Avro, Json, StreamTable
from lakehouse.decoding.formats.avro_schemas import writer_schema
from lakehouse.decoding.formats.framing import framed
from lakehouse.discovery import _declared_in, declared_tables
from lakehouse.kafka import Record, registry_client
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.registries import SECOND, Answer, answering_registry, said, written

SHOP = 'Ann\'s "first"'
ORDERS: list[dict[str, object]] = [
    {"orderId": n, "at": f"2026-01-0{n}T10:00:00Z", "shop": SHOP, "price": n / 2, "items": []} for n in (1, 2)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of declarations, in a working directory with two sample records."""
    made = tmp_path / f"lake_{uuid4().hex}"
    made.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", made.name)
    Path("orders.jsonl").write_text("\n".join(map(json.dumps, ORDERS)) + "\n\n{\n", encoding="utf-8")
    return made


def new_table(*arguments: str) -> int:
    return main.run(["new-table", *arguments])


def declared(name: str) -> StreamTable:
    _declared_in.cache_clear()  # as another process, which reads the folder anew
    return {table.name: table for table in declared_tables(Settings.load())}[name]


def test_the_file_declares_a_table_that_takes_the_records(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert new_table("orders", "--from-sample", "orders.jsonl") == main.DONE
    said = " ".join(capsys.readouterr().out.split())
    assert "from 3 records; 1 of them are not JSON objects" in said
    assert "Field 'items' is left out: it contains arrays" in said
    table = declared("orders")
    assert (table.topic, table.key, table.file) == ("orders", ["order_id"], str(folder / "orders.py"))
    rows = [table.decode(json.dumps(order).encode()) for order in ORDERS]
    assert [(row["order_id"], row["shop"], row["price"]) for row in rows] == [(1, SHOP, 0.5), (2, SHOP, 1.0)]
    text = (folder / "orders.py").read_text()
    assert "# - Field 'items' is left out" in text
    assert max(map(len, text.splitlines())) <= 120


def test_what_a_field_is_called_is_never_taken_for_code(folder: Path) -> None:
    names = ['"), exec("1/0', "a\nb = 1/0 #", "\u2028", "'''", '"""', "\ud800", "𝄞 𝄞", "back\\slash"]
    Path("odd.jsonl").write_text(json.dumps({"id": 1} | {f"x{n} {name}": n for n, name in enumerate(names)}))
    assert new_table("odd", "--from-sample", "odd.jsonl") == main.DONE
    sources = [column.source for column in declared("odd").columns[1:]]
    assert sources == [f"x{n} {name}" for n, name in enumerate(names)]


def test_nothing_that_is_there_is_touched(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "orders.py").write_text("mine = 1\n")
    assert new_table("orders", "--from-sample", "orders.jsonl") == main.WRONG_USE
    assert "is there already" in capsys.readouterr().err
    assert (folder / "orders.py").read_text() == "mine = 1\n"


def test_records_that_tell_nothing_make_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.jsonl").write_text("{\n[]\n")
    assert new_table("none", "--from-sample", "none.jsonl") == main.FAILED
    assert "No record is a JSON object" in " ".join(capsys.readouterr().err.split())
    assert list(folder.iterdir()) == []


def test_examples_of_ours_are_not_written_beside(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", "lakehouse.examples.tables")
    assert new_table("orders", "--from-sample", "orders.jsonl") == main.FAILED
    assert "lakehouse init my-lake" in " ".join(capsys.readouterr().err.split())


def test_what_another_declaration_has_is_refused_and_no_file_is_left(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new_table("orders", "--from-sample", "orders.jsonl") == main.DONE
    declared("orders")
    assert new_table("orders_changes", "--from-sample", "orders.jsonl") == main.FAILED
    assert "also uses the name orders_changes" in " ".join(capsys.readouterr().err.split())
    assert [file.name for file in folder.glob("*.py")] == ["orders.py"]


def test_a_field_whose_name_the_change_feed_takes_gets_a_column_of_another(folder: Path) -> None:
    Path("numbers.jsonl").write_text("\n".join(json.dumps({"number": n}) for n in (1, 2)))
    assert new_table("numbers", "--from-sample", "numbers.jsonl") == main.DONE
    assert 'Column("number_", "BIGINT", doc="", required=True, source="number")' in (folder / "numbers.py").read_text()


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (b"", "There is no record"),
        (b"[1]\n", "one on each line of a file; the first begins with b'[1]'"),
        (b"a,b\n1,2\n", "the first begins with b'a,b'"),
    ],
)
def test_a_sample_without_an_object_is_named_with_what_is_wrong(
    folder: Path, sample: bytes, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("odd.jsonl").write_bytes(sample)
    assert new_table("orders", "--from-sample", "odd.jsonl") == main.FAILED
    said = " ".join(capsys.readouterr().err.split())
    assert "odd.jsonl" in said and why in said
    assert not any(folder.iterdir())


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OF_AVRO = written(
    7,
    SECOND,
    [{"id": Decimal(n), "at": NOON, "total": 1.5, "customer": {"name": SHOP}, "channel": "a"} for n in (1, 2)],
)


@pytest.fixture
def outside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A broker of others is set, which is not asked, and nobody waits for a registry."""
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setattr(registry_client, "_PATIENCE", 0.0)
    return monkeypatch


def of_topic(outside: pytest.MonkeyPatch, *values: bytes | None) -> int:
    """What the command ends with for a topic that holds these values."""
    records = [Record(0, offset, 0, None, value) for offset, value in enumerate(values)]
    outside.setattr("lakehouse.kafka.newest_records", lambda *_: records)
    return new_table("orders", "--from-topic", "orders")


def test_of_records_in_avro_the_file_says_so_and_takes_them(
    folder: Path, outside: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering_registry({"/schemas/ids/7": said(SECOND)}) as (url, _):
        outside.setenv("LAKEHOUSE_REGISTRY_URL", url)
        assert of_topic(outside, *OF_AVRO, OF_AVRO[0][:-1]) == main.DONE
    assert "from 3 records; 1 of them cannot be read by their schemas" in " ".join(capsys.readouterr().out.split())
    text = (folder / "orders.py").read_text()
    assert "from lakehouse import Avro, Column, StreamTable" in text and "    format=Avro(),\n" in text
    table = declared("orders")
    assert (table.format, table.key) == (Avro(), ["id"])
    row = table.decode(OF_AVRO[1], schemas={7: writer_schema(json.dumps(SECOND))})
    assert (row["id"], row["at"], row["customer_name"]) == (2, NOON, SHOP)


def test_of_framed_json_the_file_says_so_and_no_registry_is_asked(folder: Path, outside: pytest.MonkeyPatch) -> None:
    value = framed(3, b'{"id": 1, "at": "2026-01-01"}')
    assert of_topic(outside, value) == main.DONE
    table = declared("orders")
    assert table.format == Json(framed=True)
    assert table.decode(value)["id"] == 1


def test_without_a_registry_the_setting_that_names_one_is_told(
    folder: Path, outside: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert of_topic(outside, *OF_AVRO) == main.FAILED
    assert "Set LAKEHOUSE_REGISTRY_URL to the registry" in " ".join(capsys.readouterr().err.split())
    outside.setenv("LAKEHOUSE_REGISTRY_URL", "http://127.0.0.1:1")
    assert of_topic(outside, *OF_AVRO) == main.FAILED
    assert "cannot be reached" in " ".join(capsys.readouterr().err.split())
    assert not any(folder.iterdir())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((404, '{"error_code": 40403, "message": "no"}'), "schema 7 is not known. Where the schema is not known, set"),
        (said("message R {}", schemaType="PROTOBUF"), "schema 7: it is a schema of PROTOBUF, not of Avro"),
        (said("{}", schemaType="JSON"), "schema 7: it is a schema of JSON, not of Avro"),
    ],
)
def test_schemas_by_which_nothing_can_be_read_are_named_with_the_reason(
    folder: Path, outside: pytest.MonkeyPatch, answer: Answer, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering_registry({"/schemas/ids/7": answer}) as (url, _):
        outside.setenv("LAKEHOUSE_REGISTRY_URL", url)
        assert of_topic(outside, None, *OF_AVRO) == main.FAILED
    assert why in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not any(folder.iterdir())


def test_a_folder_that_the_file_would_hide_is_not_written_beside(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "orders").mkdir()
    assert new_table("orders", "--from-sample", "orders.jsonl") == main.WRONG_USE
    assert "orders is there already" in " ".join(capsys.readouterr().err.split())
    assert not (folder / "orders.py").exists()


def test_a_folder_of_declarations_that_is_not_there_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", "no_such_folder")
    assert new_table("orders", "--from-sample", "orders.jsonl") == main.FAILED
    assert "The folder of declarations is missing: no_such_folder" in " ".join(capsys.readouterr().err.split())
