"""Values that are one whole number as bytes."""

import pytest

from lakehouse.declaration import Avro, BigEndian, Column
from lakehouse.decoding.formats import likely_formats
from lakehouse.decoding.formats.format import UnwritableError
from lakehouse_tests.helpers.decoding.decoded_rows import count_plain, rows_of, verdict_of

LONGS = rows_of(BigEndian(), Column("n", "BIGINT", "How many.", source="value"))
INT = Column("n", "INT", "How many.", source="value")
NUMBERS = (0, 1, 300, -1, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("number", NUMBERS)
def test_eight_bytes_are_a_signed_number(number: int) -> None:
    value = number.to_bytes(8, "big", signed=True)
    assert verdict_of(LONGS, value)["n"] == number
    assert BigEndian().writer()(b'{"value": %d}' % number) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [(None, "tombstone"), (b"", "empty_value"), (b"\x00" * 4, "wrong_type"), (b"1" * 9, "wrong_type")],
)
def test_other_sizes_are_rejected(value: bytes | None, reason: str) -> None:
    assert verdict_of(LONGS, value)[0] == reason


def test_a_number_that_its_column_cannot_hold_is_rejected() -> None:
    assert verdict_of(rows_of(BigEndian(4), INT), b"\xff\xff\xff\xff")["n"] == -1
    assert verdict_of(rows_of(BigEndian(), INT), (2**40).to_bytes(8, "big"))[0] == "out_of_range"


def test_numbers_are_plain() -> None:
    assert count_plain([number.to_bytes(8, "big") for number in range(100)], LONGS.rules()) == 100


def test_what_is_not_a_number_of_this_size_is_not_written() -> None:
    for line in (
        b'{"value": 1.5}',
        b'{"value": "1"}',
        b'{"value": 1, "n": 2}',
        b"{}",
        b'{"value": 9223372036854775808}',
    ):
        with pytest.raises(UnwritableError, match="a whole number N of 8 bytes"):
            BigEndian().writer()(line)


def test_numbers_near_zero_are_recognised_and_framed_records_are_not() -> None:
    assert likely_formats([number.to_bytes(8, "big", signed=True) for number in (3, 2**40, -7)]) == (BigEndian(),)
    assert BigEndian() not in likely_formats([bytes(8), b"\x00\x00\x00\x00\x01\x02abc"])
    assert BigEndian() not in likely_formats([b"\x00\x00\x00\x00\x01\x02ab"] * 3)
    assert likely_formats([b"\x00\x00\x00\x00\x01\x02ab"] * 3)[0] == Avro()
