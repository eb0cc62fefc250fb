"""The key of a published record."""

from lakehouse.declaration import Column, Compressed, Csv, StreamTable
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka.publish import key_fields, record_key
from lakehouse_tests.helpers.brokers.streams import record
from lakehouse_tests.helpers.tables.log_tables import log_table


def test_the_records_of_one_row_have_the_same_key() -> None:
    fields = key_fields(temperatures)
    assert record_key(record(), fields) == record_key(record(temperature_2m=1.0), fields) != None  # noqa: E711
    assert record_key(b"{", fields) is None


def test_records_of_a_log_table_have_no_key_so_that_they_spread_over_the_partitions() -> None:
    assert record_key(record(), key_fields(log_table())) is None


def test_the_key_of_a_row_of_csv_is_read_from_its_text() -> None:
    columns = [Column("id", "INT", "Which.", required=True), Column("name", "STRING", "Who.")]
    form = Compressed(Csv(["name", "id"]), "gzip")
    table = StreamTable("people", "people", "People.", columns, ["id"], format=form)
    value = form.writer()(b'{"id": 7, "name": "a,b"}')
    assert record_key(value, key_fields(table), form.parser()) == b"7"
    assert record_key(form.writer()(b'{"id": "x"}'), key_fields(table), form.parser()) is None
