"""The expected newest record, fact by fact: each fact has its own hour in one shared history."""

from dataclasses import dataclass
from typing import Any

from lakehouse_tests.helpers.brokers.streams import ABSENT, hour, record

# Rounds in which records are sent; those of round 0 go to a partition that is merged last
OLDEST, FIRST, SECOND = 0, 1, 2
SentRecord = tuple[int, dict[str, Any]]
RecordIndex = int | str | None  # index among the records of the fact; BASE for base files; None for no record


def reading(temperature: Any, **fields: Any) -> dict[str, Any]:
    return {"temperature_2m": temperature, **fields}


@dataclass(frozen=True)
class Fact:
    """Records of one key in the order in which they are sent, and the expected row.

    ``row_origin`` and ``kept_origin`` are the records of the row and of the value of its kept column; ``columns``
    are expected values of other columns.
    """

    records: tuple[SentRecord, ...]
    value: float | None
    row_origin: RecordIndex
    kept_origin: RecordIndex
    columns: tuple[tuple[str, Any], ...] = ()
    base: tuple[float | None, float | None] | None = None  # the values in the first and second base files


def of_one_batch(*records: dict[str, Any]) -> tuple[SentRecord, ...]:
    return tuple((FIRST, fields) for fields in records)


def of_two_batches(first: dict[str, Any], second: dict[str, Any]) -> tuple[SentRecord, ...]:
    return (FIRST, first), (SECOND, second)


_ABSENT, _NULL, _VALUE = reading(ABSENT), reading(None), reading(7.5)
BASE = "base"
FACTS = {
    "duplicates inside a batch": Fact(of_one_batch(reading(1.0), reading(2.0), reading(3.0)), 3.0, 2, 2),
    "duplicates across batches": Fact(of_two_batches(reading(1.0), reading(2.0)), 2.0, 1, 1),
    "an older record that reaches the table late": Fact(((OLDEST, reading(1.0)), (FIRST, reading(2.0))), 2.0, 1, 1),
    "a newer record of equal values leaves its order behind": Fact(of_two_batches(_VALUE, _VALUE), 7.5, 1, 1),
    "absent, then a value, in one batch": Fact(of_one_batch(_ABSENT, _VALUE), 7.5, 1, 1),
    "null, then a value, in one batch": Fact(of_one_batch(_NULL, _VALUE), 7.5, 1, 1),
    "a value, then absent, in one batch": Fact(of_one_batch(_VALUE, _ABSENT), 7.5, 1, 0),
    "a value, then null, in one batch": Fact(of_one_batch(_VALUE, _NULL), 7.5, 1, 0),
    "absent, then a value, in two batches": Fact(of_two_batches(_ABSENT, _VALUE), 7.5, 1, 1),
    "null, then a value, in two batches": Fact(of_two_batches(_NULL, _VALUE), 7.5, 1, 1),
    "a value, then absent, in two batches": Fact(of_two_batches(_VALUE, _ABSENT), 7.5, 1, 0),
    "a value, then null, in two batches": Fact(of_two_batches(_VALUE, _NULL), 7.5, 1, 0),
    "never a value": Fact(of_two_batches(_ABSENT, _NULL), None, 1, None),
    "a kept value of an older record that is merged later": Fact(((OLDEST, _VALUE), (FIRST, _ABSENT)), 7.5, 1, 0),
    "a column that is not kept": Fact(
        of_two_batches(reading(1.0, humidity=50.0), reading(2.0)), 2.0, 1, 1, (("humidity", None),)
    ),
    "a declared version decides before the broker does": Fact(
        (*of_one_batch(reading(5.0, revision=5), reading(4.0, revision=4)), (SECOND, reading(0.0))),
        5.0, 0, 0, (("revision", 5),),
    ),
    "coordinates are rounded half up to one key": Fact(
        of_one_batch(reading(1.0, longitude=-0.0999905), reading(2.0, longitude=-0.099991)), 2.0, 1, 1
    ),
    "a month of its own": Fact(
        of_two_batches(reading(1.0, time="2023-07-01T00:00"), reading(2.0, time="2023-07-01T00:00")), 2.0, 1, 1
    ),
    "base rows alone, loaded twice": Fact((), 61.0, BASE, BASE, base=(51.0, 61.0)),
    "base rows before the record": Fact(((SECOND, reading(1.0)),), 1.0, 0, 0, base=(50.0, 60.0)),
    "base rows after the record": Fact(((FIRST, reading(1.0)),), 1.0, 0, 0, base=(50.0, 60.0)),
    "base rows give a kept column the value that no record has": Fact(
        ((FIRST, _ABSENT),), 62.0, 0, BASE, base=(52.0, 62.0)
    ),
}  # fmt: skip
HOURS = {name: hour(number) for number, name in enumerate(FACTS)}
HOURS["a month of its own"] = "2023-07-01T00:00"


def records_of_round(round_: int) -> list[tuple[str, bytes]]:
    """The records of a round, each with the name of its fact."""
    return [
        (name, record(**{"time": HOURS[name], **fields}))
        for name, fact in FACTS.items()
        for record_round, fields in fact.records
        if record_round == round_
    ]


def base_values(load: int) -> dict[str, float | None]:
    """The temperature in the base files by hour, in the first or second load."""
    return {HOURS[name]: fact.base[load] for name, fact in FACTS.items() if fact.base}
