"""The check of ``publish`` before it sends, and the file whose lines it sends."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from lakehouse.cli.publish import checked_records, open_lines, require_records
from lakehouse.declaration import Column, Compressed, Csv, Json, Logfmt, StreamTable
from lakehouse.errors import LakehouseError, TopicError
from lakehouse.examples.tables.movie_ratings import movie_ratings
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.barred_format import Barred
from lakehouse_tests.helpers.brokers.streams import record
from lakehouse_tests.helpers.commands import failure_of
from lakehouse_tests.helpers.declaration_files import declare
from lakehouse_tests.helpers.places import DATA

GOOD = record()


def test_valid_lines_are_sent() -> None:
    require_records(temperatures, [GOOD + b"\n", GOOD + b"\r\n"], "f")
    assert list(checked_records(temperatures, [GOOD, GOOD])) == [GOOD, GOOD]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"latitude,longitude\n", b"1,2\n"], "2 of 2 records would be rejected"),
        ([b"[" + GOOD + b"]"], "1 of 1 records would be rejected"),
        ([GOOD, b"{}", GOOD, b"{}", b"{"], "3 of 5 records would be rejected"),
    ],
)
def test_rejected_lines_are_counted_by_reason_with_the_first_line_of_each(lines: list[bytes], message: str) -> None:
    with pytest.raises(LakehouseError) as error:
        require_records(temperatures, lines, "f.csv")
    assert error.value.what.startswith(message)
    assert "(line " in error.value.what
    assert error.value.action.startswith("Nothing was sent.")


def test_lines_of_standard_input_are_sent_up_to_the_first_rejected_one() -> None:
    lines = checked_records(temperatures, [GOOD, GOOD, b"{}"])
    assert [next(lines), next(lines)] == [GOOD, GOOD]
    with pytest.raises(LakehouseError, match=r"Line 3 would be rejected.*Lines before it that were sent: 2"):
        next(lines)


def test_lines_are_checked_as_a_format_of_texts_writes_them() -> None:
    columns = [Column("id", "INT", "Which.", required=True), Column("visits", "INT", "How often.")]
    for form in (Csv(["id", "visits"]), Logfmt(), Compressed(Csv(["id", "visits"]), "zstd")):
        table = StreamTable("visits", "visits", "Visits.", columns, ["id"], format=form)
        require_records(table, [b'{"id": 1, "visits": null}', b'{"id": "2", "visits": 3}'], "f")
        with pytest.raises(LakehouseError, match=r"wrong_type: 1 \(line 2"):
            require_records(table, [b'{"id": 1}', b'{"id": "x"}'], "f")


def test_lines_are_checked_as_the_format_of_their_table_encodes_them() -> None:
    columns = [Column("id", "INT", "Which.", required=True), Column("visits", "INT", "How often.")]
    barred = StreamTable("visits", "visits", "Visits.", columns, ["id"], format=Barred(("id", "visits")))
    require_records(barred, [b'{"id": "1", "visits": ""}'], "f")
    with pytest.raises(LakehouseError, match=r"wrong_type: 1 \(line 1"):
        require_records(replace(barred, format=Json()), [b'{"id": "1", "visits": ""}'], "f")
    with pytest.raises(LakehouseError, match=r"truncated: 1 \(line 2: 3 of 2 values"):
        require_records(barred, [b'{"id": 1}', b'{"id": 1, "visits": "2|3"}'], "f")
    with pytest.raises(TopicError, match=r"Line 1 cannot be written.*Nothing of a file was sent"):
        require_records(barred, [b"1|2"], "f")
    with pytest.raises(TopicError, match="Line 2 cannot be written"):
        list(checked_records(barred, [b'{"id": 1}', b"1|2"]))


def test_lines_that_get_a_frame_are_checked_without_it() -> None:
    lines = [GOOD, b"", b"{", b"\x00\x00\x00\x00\x01{}", b"[]", record(latitude="x")]
    messages = []
    for table in (temperatures, replace(temperatures, format=Json(framed=True))):
        with pytest.raises(LakehouseError, match="5 of 6 records would be rejected") as error:
            require_records(table, lines, "f")
        messages.append(error.value.what)
    assert messages[0] == messages[1]


def test_lines_that_a_schema_encodes_are_not_checked_first() -> None:
    require_records(movie_ratings, [b"{}"], "f")
    assert list(checked_records(movie_ratings, [b"{}"])) == [b"{}"]


def test_a_table_whose_key_is_not_in_the_lines_is_refused_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from lakehouse import Column, RecordKey, StreamTable\n"
        'columns = [Column("id", "STRING", "Id.", required=True, source=RecordKey()), Column("n", "INT", "N.")]\n'
        'keyed = StreamTable("keyed", "keyed", "Keyed.", columns, ["id"])\n'
    )
    declare(tmp_path, monkeypatch, keyed=text)
    (tmp_path / "lines.jsonl").write_text('{"n": 1}\n')
    assert "Send its records with a Kafka client" in failure_of("publish", "keyed", str(tmp_path / "lines.jsonl"))


def test_a_file_with_a_wrong_line_is_not_sent_without_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    error = failure_of("publish", "temperatures", str(DATA / "stream.jsonl"))
    assert "of 23 records would be rejected by table temperatures" in error
    assert "--force" in error
    assert not (tmp_path / "home").exists()


def test_a_line_with_a_rejected_element_is_counted_once() -> None:
    columns = [Column("sku", "STRING", "Article.", required=True)]
    table = StreamTable("items", "items", "Items.", columns, ["sku"], rows_from="items")
    lines = [b'{"items": [{"sku": "a"}]}', b'{"items": [{"sku": "a"}, {"sku": 1}, {}]}', b"{}", b"{"]
    with pytest.raises(LakehouseError) as error:
        require_records(table, lines, "f")
    assert error.value.what.startswith("2 of 4 records would be rejected")
    assert "wrong_type: 1 (line 2: 'items[].sku' is" in error.value.what
    assert "truncated: 1 (line 4: " in error.value.what


def test_a_pipe_is_refused_because_its_lines_are_checked_before_they_are_sent(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDWR)  # so that opening it does not wait for a writer
    try:
        with pytest.raises(typer.BadParameter, match="pipe can be read only once; for"), open_lines(str(pipe)):
            pass
    finally:
        os.close(descriptor)
