"""The key of a published record."""

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka.publish import record_key
from lakehouse_tests.helpers.brokers.streams import record
from lakehouse_tests.helpers.tables.log_tables import log_table


def test_the_records_of_one_row_have_the_same_key() -> None:
    key_fields = tuple(temperatures.by_name[name].field for name in temperatures.key)
    assert record_key(record(), key_fields) == record_key(record(temperature_2m=1.0), key_fields) != None  # noqa: E711
    assert record_key(b"{", key_fields) is None


def test_records_of_a_log_table_have_no_key_so_that_they_spread_over_the_partitions() -> None:
    assert record_key(record(), tuple(log_table().by_name[name].field for name in log_table().key)) is None
