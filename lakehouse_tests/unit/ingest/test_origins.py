"""Servers of a change stream: which of them sends new changes with positions that another server has passed."""

import pytest

from lakehouse.decoding.formats.debezium.position import source_origin
from lakehouse.ingest.change_positions import Positions, before_others

A, B = 1, 2


@pytest.mark.parametrize(
    ("former", "positions", "origins"),
    [
        ({A: 100}, [Positions(B, 9, 5)], [B]),
        ({A: 100}, [Positions(B, 200, 101)], []),
        ({A: 100, B: 200}, [Positions(A, 150, 101)], [A]),
        ({A: 100, B: 200}, [Positions(A, 100, None)], []),
        ({A: 100}, [Positions(A, 120, 101), Positions(B, 121, 102)], [A, B]),
        ({}, [Positions(A, 100, 1), Positions(B, 9, 5)], [A, B]),
        ({}, [Positions(A, 100, 1)], []),
    ],
)
def test_a_server_is_before_others_if_a_new_change_of_it_has_a_smaller_position(
    former: dict[int, int], positions: list[Positions], origins: list[int]
) -> None:
    assert before_others(former, positions) == origins


def test_the_origin_of_a_change_is_its_server_and_the_name_of_its_binlog() -> None:
    source = {"file": "binlog.000003", "pos": 4, "server_id": 7}
    origin = source_origin(source)
    assert origin is not None
    assert origin % 2**32 == 7
    assert source_origin({**source, "file": "binlog.000099"}) == origin
    other_sources = (
        {**source, "server_id": 8},
        {**source, "file": "mysql-bin.000003"},
        {"file": "binlog.000003", "pos": 4},
    )
    origins = {origin, *(source_origin(other_source) for other_source in other_sources)}
    assert len(origins) == 4
    assert all(number is not None and 0 <= number < 2**63 for number in origins)


@pytest.mark.parametrize("source", [{}, {"lsn": 5, "file": "binlog.000003"}, {"file": "x"}, {"file": None}])
def test_a_source_with_one_log_has_no_origin(source: dict[str, object]) -> None:
    assert source_origin(source) is None
