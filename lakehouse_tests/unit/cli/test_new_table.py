"""``lakehouse new-table``: a declaration that works unchanged, proposed from real records."""

import gzip
import json
from pathlib import Path

import pytest

from lakehouse.cli import main
from lakehouse.declaration import FieldIs
from lakehouse_tests.helpers.new_tables import ORDERS, SHOP, declared_table, new_table


def test_the_file_declares_a_table_that_decodes_the_records(folder: Path) -> None:
    output = new_table("orders", "--from-sample", "orders.jsonl")
    assert "from 3 records; 1 of them cannot be read as JSON objects: " in output
    assert "Field 'items' is left out: it is always empty" in output
    table = declared_table("orders")
    assert (table.topic, table.key, table.file) == ("orders", ["order_id"], str(folder / "orders.py"))
    rows = [table.decode(json.dumps(order).encode()) for order in ORDERS]
    assert [(row["order_id"], row["shop"], row["price"]) for row in rows] == [(1, SHOP, 0.5), (2, SHOP, 1.0)]
    text = (folder / "orders.py").read_text()
    assert "# - Field 'items' is left out" in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("condition", "where", "columns"),
    [
        ("type=order", FieldIs("type", ["order"]), {"type", "order_id", "total"}),
        ("meta.kind=7", FieldIs(("meta", "kind"), [7]), {"type", "refund_id", "meta_kind"}),
        ("paid=true", FieldIs("paid", [True]), {"type", "order_id", "total", "paid"}),
    ],
)
def test_a_condition_chooses_the_records_of_one_type(
    folder: Path, condition: str, where: FieldIs, columns: set[str]
) -> None:
    records: list[dict[str, object]] = [
        {"type": "order", "order_id": 1, "total": 2.5},
        {"type": "refund", "refund_id": 1, "meta": {"kind": 7}},
        {"type": "paid_order", "order_id": 3, "total": 1.5, "paid": True},
    ]
    Path("shop.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n{\n", encoding="utf-8")
    new_table("chosen", "--from-sample", "shop.jsonl", "--where", condition)
    table = declared_table("chosen")
    assert (table.where, {column.name for column in table.columns}) == (where, columns)


def test_a_condition_that_chooses_nothing_is_refused(folder: Path) -> None:
    assert "None of 3 records meets shop=other" in new_table(
        "chosen", "--from-sample", "orders.jsonl", "--where", "shop=other", code=main.FAILED
    )
    assert "'shop' is neither FIELD=VALUE nor header:NAME=VALUE" in new_table(
        "chosen", "--from-sample", "orders.jsonl", "--where", "shop", code=main.WRONG_USE
    )
    assert list(folder.iterdir()) == []


def test_the_name_of_a_field_is_never_run_as_code(folder: Path) -> None:
    names = ['"), exec("1/0', "a\nb = 1/0 #", "\u2028", "'''", '"""', "\ud800", "𝄞 𝄞", "back\\slash"]
    Path("odd.jsonl").write_text(json.dumps({"id": 1} | {f"x{n} {name}": n for n, name in enumerate(names)}))
    new_table("odd", "--from-sample", "odd.jsonl")
    sources = [column.source for column in declared_table("odd").columns[1:]]
    assert sources == [f"x{n} {name}" for n, name in enumerate(names)]


def test_an_existing_file_is_not_changed(folder: Path) -> None:
    (folder / "orders.py").write_text("mine = 1\n")
    assert "already exists" in new_table("orders", "--from-sample", "orders.jsonl", code=main.WRONG_USE)
    assert (folder / "orders.py").read_text() == "mine = 1\n"


def test_no_file_is_written_for_unreadable_records(folder: Path) -> None:
    Path("none.jsonl").write_text("{\n[]\n")
    assert "No record is a JSON object" in new_table("none", "--from-sample", "none.jsonl", code=main.FAILED)
    assert list(folder.iterdir()) == []


def test_no_file_is_written_next_to_our_examples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", "lakehouse.examples.tables")
    assert "lakehouse init my-lake" in new_table("orders", "--from-sample", "orders.jsonl", code=main.FAILED)


def test_a_name_of_another_declaration_is_refused_and_no_file_is_left(folder: Path) -> None:
    new_table("orders", "--from-sample", "orders.jsonl")
    declared_table("orders")
    assert "also uses the name orders_changes" in new_table(
        "orders_changes", "--from-sample", "orders.jsonl", code=main.FAILED
    )
    assert [file.name for file in folder.glob("*.py")] == ["orders.py"]


def test_a_field_with_a_name_that_the_change_feed_uses_gets_another_column_name(folder: Path) -> None:
    Path("numbers.jsonl").write_text("\n".join(json.dumps({"number": n}) for n in (1, 2)))
    new_table("numbers", "--from-sample", "numbers.jsonl")
    assert 'Column("number_", "BIGINT", doc="", required=True, source="number")' in (folder / "numbers.py").read_text()


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (b"", "There are no records"),
        (b"[1]\n", "a file needs one on each line; the first starts with b'[1]'"),
        (b'{"a": 1\n{"a": 2\n', "the first starts with b'{\"a\": 1'"),
    ],
)
def test_a_sample_without_an_object_is_reported_with_the_reason(folder: Path, sample: bytes, message: str) -> None:
    Path("odd.jsonl").write_bytes(sample)
    error = new_table("orders", "--from-sample", "odd.jsonl", code=main.FAILED)
    assert "odd.jsonl" in error and message in error
    assert not any(folder.iterdir())


def test_no_file_is_written_that_would_hide_a_folder(folder: Path) -> None:
    (folder / "orders").mkdir()
    assert "orders already exists" in new_table("orders", "--from-sample", "orders.jsonl", code=main.WRONG_USE)
    assert not (folder / "orders.py").exists()


def test_a_missing_folder_of_declarations_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", "no_such_folder")
    assert "The folder of declarations is missing: no_such_folder" in new_table(
        "orders", "--from-sample", "orders.jsonl", code=main.FAILED
    )


def test_a_sample_of_csv_has_the_columns_of_its_first_row(folder: Path) -> None:
    Path("sales.csv").write_text('id,amount,city\n1,"1,250",Bonn\n2,500,Bonn\n3,,Bonn\n', encoding="utf-8")
    output = new_table("sales", "--from-sample", "sales.csv")
    assert "from 3 records" in output
    assert "The first line has the names of the columns and is not a record" in output
    assert "placeholders" not in output
    table = declared_table("sales")
    assert table.decode(b'1,"1,250",Bonn') == {"id": 1, "amount": "1,250", "city": "Bonn"}


@pytest.mark.parametrize(
    ("text", "record", "row"),
    [
        ("Bonn,sunny\nUlm,wet\n", b"Bonn,dry", {"column_1": "Bonn", "column_2": "dry"}),
        ("id,id\n1,2\n", b"1,2", {"column_1": "1", "column_2": "2"}),
        ("level=info n=1\nlevel=warn n=2\n", b"level=bad n=3", {"level": "bad", "n": 3}),
        ("it rains\nit is dry\n", b"it snows", {"value": "it snows"}),
    ],
)
def test_a_sample_of_texts_is_read_like_a_topic_of_them(
    folder: Path, text: str, record: bytes, row: dict[str, object]
) -> None:
    Path("sample.txt").write_text(text, encoding="utf-8")
    new_table("texts", "--from-sample", "sample.txt")
    assert declared_table("texts").decode(record) == row


@pytest.mark.parametrize(
    "text", ['{"id":1,"n":2}{"id":2,"n":3}\n{"id":3,"n":4}', '{\n  "id": 1,\n  "n": 2\n}\n{\n  "id": 2\n}']
)
def test_a_sample_of_objects_without_lines_of_their_own_is_read_by_object(folder: Path, text: str) -> None:
    Path("events.json").write_text(text)
    output = new_table("events", "--from-sample", "events.json")
    assert "To read such files, write source=Files(..., each='element')" in output
    assert {column.name for column in declared_table("events").columns} == {"id", "n"}
    assert "or read files with source=Files(...)" in output


def test_the_lines_in_front_of_a_header_are_counted(folder: Path) -> None:
    sheet = "Sales 2026;;\nmade today;;\n\nday;amount;who\n1;10;Ann\n2;20;Bob\n3;7;Ann\n"
    Path("sheet.csv").write_text(sheet)
    output = new_table("sheet", "--from-sample", "sheet.csv")
    assert "2 lines in front of the header are not records: source=Files(..., header=..., title_lines=2)" in output
    assert [column.name for column in declared_table("sheet").columns] == ["day", "amount", "who"]


def test_rows_in_front_of_what_looks_like_a_header_are_records(folder: Path) -> None:
    Path("rows.csv").write_text("1,ann\n2,bob\nx,unknown\n3,carl\n4,dora\n")
    assert "from 5 records" in new_table("rows", "--from-sample", "rows.csv")


@pytest.mark.parametrize("lines", [['{"id": 0, "n": NaN}'], ['{"id": 0, "id": 1, "n": 2}'], ["{bad"]])
def test_lines_of_json_are_records_although_the_first_one_is_odd(folder: Path, lines: list[str]) -> None:
    Path("lines.jsonl").write_text("\n".join([*lines, *(f'{{"id": {number}, "n": 5}}' for number in range(1, 40))]))
    output = new_table("lines", "--from-sample", "lines.jsonl", "--records", "30")
    assert "each='element'" not in output
    assert "from 30 records" in output


def test_a_large_array_over_many_lines_is_read_by_element(folder: Path) -> None:
    Path("array.json").write_text(json.dumps([{"id": number, "n": 5} for number in range(60)], indent=0))
    output = new_table("array", "--from-sample", "array.json", "--records", "30")
    assert "each='element'" in output
    assert "from 30 records" in output


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_titles_without_delimiters_are_counted(folder: Path, delimiter: str) -> None:
    rows = [["id", "name", "amount"], *([f"{number}", "Ann", "5"] for number in range(8))]
    lines = ["Sales report", "By Excel", *map(delimiter.join, rows)]
    Path("report.csv").write_text("\n".join(lines))
    assert "title_lines=2" in new_table("report", "--from-sample", "report.csv")
    assert [column.name for column in declared_table("report").columns] == ["id", "name", "amount"]


def test_a_compressed_sample_is_read_and_a_damaged_one_is_named(folder: Path) -> None:
    objects = b'{"click_id": "a", "page": "/"}{"click_id": "b", "page": "/x"}'
    (folder / "clicks.gz").write_bytes(gzip.compress(objects))
    assert "from 2 records" in new_table("clicks", "--from-sample", str(folder / "clicks.gz"))
    for data in (gzip.compress(objects)[:-9], b"{}"):
        (folder / "damaged.gz").write_bytes(data)
        output = new_table("damaged", "--from-sample", str(folder / "damaged.gz"), code=main.WRONG_USE)
        assert "damaged.gz cannot be read" in output
