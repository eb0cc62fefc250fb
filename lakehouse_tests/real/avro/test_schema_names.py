"""Records of several schemas in one topic: the name of the schema decides which belong to the table."""

from dataclasses import replace

import pytest

from lakehouse.declaration import SchemaIs
from lakehouse_tests.helpers.brokers.avro_orders import order
from lakehouse_tests.helpers.brokers.registries import FIRST, encode_records, register
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.tables import redeclare

REFUND = {"type": "record", "name": "shop.Refund", "fields": [{"name": "number", "type": "string"}]}


@pytest.mark.slow
@pytest.mark.invariant("7.10")
def test_only_records_of_one_schema_become_rows_and_a_replay_changes_nothing(stream: Stream) -> None:
    refunds = redeclare(stream.table, name="refunds", topic=f"{stream.table.topic}-refunds", rollups=())
    order_id, refund_id = register(stream.settings, stream.table, FIRST), register(stream.settings, refunds, REFUND)
    stream.table = replace(stream.table, where=SchemaIs([f"{stream.table.name}.Order"]))
    stream.send(*encode_records(order_id, FIRST, [order(1), order(2)]))
    stream.send(*encode_records(refund_id, REFUND, [{"number": "a"}, {"number": "b"}, {"number": "c"}]))
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=5, rejected=0, superseded=0, inserted=2, updated=0, stale=0)
    assert outcome.entry.commit.filtered == 3
    rows = stream.snapshot_of("id")
    (replayed,) = stream.replay()
    assert (replayed.entry.commit.filtered, stream.snapshot_of("id")) == (3, rows)
    stream.assert_accounted()
