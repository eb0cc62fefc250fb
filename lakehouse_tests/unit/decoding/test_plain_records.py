"""The fast path decodes whole records like the strict path, and leaves as few as possible to it."""

from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings

from lakehouse.declaration import Column, Late, Time
from lakehouse.decoding.fields import BEYOND_HORIZON, REASONS, SCHEMA_REASONS, TIMELESS, UNREADABLE_FILE
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.decoding.both_paths import (
    RULES,
    batch_of,
    decode_like_strictly,
    decode_twice,
)
from lakehouse_tests.helpers.decoding.native import NATIVE, uncertain_records
from lakehouse_tests.helpers.decoding.strict_decoding import GOOD
from lakehouse_tests.helpers.tables.written import WHOLE_RECORDS, WrittenBatch, batches


def one_of_each_reason() -> WrittenBatch:
    day = Column("n", "DATE", "A day.", written=Time("%Y-%m-%d"), required=True)
    count = Column("few", "INT", "A count.", between=(0, 9))
    name = Column("text", "STRING", "A text.")
    local = Column("at", "TIMESTAMP", "A local time.", written=Time("%Y-%m-%d %H:%M", zone="Europe/Berlin"))
    texts = (
        '| |\xff|{"n":|{,|{}x|{"n":1,"n":1}|{"n":NaN}|1|{}|{"n":null}|{"n":1}|{"n":"1.1.23"}|{"n":"2023-02-29"}'
        '|{"n":"2023-02-28","few":10}|{"n":"2023-02-28","text":"\\ud800"}|{"n":"2023-02-27"}|{"n":"2023-02-28"}'
        '|{"n":"2023-02-28","at":"2023-10-29 02:30"}'
    )
    values = [None, *(text.encode("latin-1") for text in texts.split("|"))]
    noon = 1_677_585_600_000_000  # of 28 February 2023
    return batch_of(values, day, count, name, local, time=noon, late=Late("n", timedelta(days=1)))


@pytest.mark.invariant("8.10")
def test_generated_and_damaged_records_of_every_type_have_equal_results() -> None:
    seen_reasons: set[str] = set()
    plain_count = 0

    @settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck), database=None)
    @given(batches())
    @example(one_of_each_reason())
    def compare(batch: WrittenBatch) -> None:
        nonlocal plain_count
        rows = decode_like_strictly(batch)
        seen_reasons.update(row["_reason"] for row in rows)
        arrays = pa.array(batch.values, pa.binary()), pa.array(batch.broker_times, pa.int64())
        plain_count += len(rows) - len(uncertain_records(*arrays, batch.rules))
        decode_twice(batch.values, batch.rules, broker_times=batch.broker_times)

    compare()
    unseen_reasons = {
        *SCHEMA_REASONS,
        TIMELESS,
        BEYOND_HORIZON,
        UNREADABLE_FILE,
        "too_large",
        "key_changed",
        "too_many_places",
    }
    assert seen_reasons == {None, *REASONS} - unseen_reasons
    assert plain_count > 20


@pytest.mark.invariant("8.10")
def test_a_value_of_another_type_with_a_default_does_not_hide_a_duplicate_name() -> None:
    name, count = Column("s", "STRING", "A text.", default="x"), Column("b", "INT", "A count.")
    rows = decode_like_strictly(batch_of(['{"s":5}', '{"b":1,"b":2}'], name, count))
    assert [row["_reason"] for row in rows] == ["wrong_type", "duplicate_name"]


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("depth", [1, 49, 50, 51, 300, 1015, 5000])
def test_unmapped_fields_may_be_nested_as_deeply_as_the_strict_rules_allow(depth: int) -> None:
    lists = f'{{"n":1,"o":{"[" * depth}"x"{"]" * depth}}}'
    objects, empty_lists = lists.replace("[", '{"o":').replace("]", "}"), lists.replace('"x"', "")
    decode_like_strictly(batch_of([lists, objects, empty_lists], Column("n", "INT", "A count.")))


@pytest.mark.invariant("8.10")
def test_every_odd_value_has_equal_results_among_valid_records() -> None:
    records: list[bytes | None] = []
    for odd_text in (None, *WHOLE_RECORDS, *(GOOD[:cut] for cut in range(len(GOOD)))):
        records += [GOOD, odd_text]
    rows = decode_like_strictly(WrittenBatch(records, [None] * len(records), RULES))
    assert {row["_reason"] for row in rows} > {None, "truncated"}


@pytest.mark.invariant("8.10", "13.3")
@pytest.mark.parametrize(
    "text",
    [
        '{"n":1,"n":2}',
        '{"n":1,"n":1}',
        '{"n":1,"\\u006e":2}',
        '{"n":1,"o":"\\"","o":"\\"\\""}',
        '{"n":1,"o":"\\\\","o":1}',
        '{"n":1,"o":{"a":1,"a":1}}',
        '{"n":1,"o":[{"a":"","a":""}]}',
        '{"n":null,"n":1}',
        '{"n":1,"n":null}',
        '{"":1,"n":2,"":3}',
    ],
)
def test_a_duplicate_name_is_detected(text: str) -> None:
    (row,) = decode_like_strictly(batch_of([text], Column("n", "INT", "A count.")))
    assert row["_reason"] == "duplicate_name"


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()])
def test_a_slice_of_an_array_is_decoded_like_the_whole(type_: pa.DataType) -> None:
    values = pa.array([GOOD, GOOD[:-1] + b',"latitude":51.5}', None, b'{"a":"\\"}', GOOD], type_)
    broker_times = pa.array([1, None, 3, 4, 5], pa.int64())
    all_verdicts = decode_values(values, broker_times, RULES, NATIVE).verdicts
    for begin in range(5):
        decoded_records = decode_values(values.slice(begin, 2), broker_times.slice(begin, 2), RULES, NATIVE)
        assert decoded_records.verdicts.equals(all_verdicts.slice(begin, 2))
    assert len(decode_values(values[:0], broker_times[:0], RULES, NATIVE).verdicts) == 0


@pytest.mark.parametrize(
    "odd_text",
    [
        b"{",
        b'{"latitude":"51.5","longitude":1,"time":"2023-01-01T05:00"}',
        b'{"latitude":1e19,"longitude":1,"time":1,"temperature_2m":12345678901234567890}',
        b'{"latitude":0.0000005,"longitude":1,"time":"2023-02-29T05:00"}',
        GOOD[:-1] + b',"other":1,"other":2}',
    ],
)
def test_only_the_record_that_is_not_plain_is_decoded_strictly(
    odd_text: bytes,
) -> None:
    valid_records = [
        GOOD,
        GOOD.replace(b"10.4", b"null"),
        GOOD[:-1] + b',"other":{"deep":["\\"\\""]}}',
        GOOD.replace(b",", b" ,\n"),
    ]
    records: list[bytes | None] = [*(valid_records * 2500)[:9999], odd_text]
    arrays = pa.array(records, pa.binary()), None, RULES
    assert len(decode_values(*arrays, NATIVE).verdicts) == 10_000
    assert uncertain_records(*arrays) == [9_999]


@pytest.mark.invariant("8.10")
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "record",
    [
        b'{"n":1,"o":"' + b'\\"' * 500_000,
        b'{"n":1,"o":"' + b"\\\\" * 250_000 + b'"}',
        b'{"n":1,"o":"\\n' + b"a" * 1_000_000 + b'"}',
        b'{"n":' + b"1" * 1_000_000 + b"}",
        b'{"n":0.' + b"0" * 1_000_000 + b"1}",
        b"[" * 1_000_000,
        b'{"n":1,' + b'"o":1,' * 150_000 + b'"o":1}',
    ],
    ids=["escapes", "backslashes", "text", "number", "fraction", "nested", "names"],
)
def test_a_record_of_the_maximum_size_is_decoded_quickly(record: bytes) -> None:
    """Time in proportion to the square of its length would stop a table for half an hour, at each new start."""
    for type_ in ("BIGINT", "DOUBLE", "DECIMAL(9,2)"):
        decode_like_strictly(batch_of([record], Column("n", type_, "d"), time=0))
