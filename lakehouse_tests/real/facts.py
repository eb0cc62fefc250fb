"""What the newest record has to be, fact by fact: each has an hour of its own in the same history."""

from dataclasses import dataclass
from typing import Any

from lakehouse_tests.helpers.brokers.streams import ABSENT, hour, record

# Rounds in which records are sent: those of round 0 go into a partition that is merged last
OLDEST, FIRST, SECOND = 0, 1, 2
Sent = tuple[int, dict[str, Any]]
Came = int | str | None  # the number of the record among those of its fact, or what stood in the base files


def reading(temperature: Any, **more: Any) -> dict[str, Any]:
    return {"temperature_2m": temperature, **more}


@dataclass(frozen=True)
class Fact:
    """Records of one key in the order they are sent, and the row they have to give.

    ``row`` and ``kept`` say with which the row and the value of the kept column came; ``columns`` are values of
    others.
    """

    sent: tuple[Sent, ...]
    value: float | None
    row: Came
    kept: Came
    columns: tuple[tuple[str, Any], ...] = ()
    base: tuple[float | None, float | None] | None = None  # its values in the first and in the second base files


def of_one_batch(*fields: dict[str, Any]) -> tuple[Sent, ...]:
    return tuple((FIRST, each) for each in fields)


def of_two_batches(first: dict[str, Any], second: dict[str, Any]) -> tuple[Sent, ...]:
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


def lines(round_: int) -> list[tuple[str, bytes]]:
    """The records of a round with the facts they are for."""
    return [
        (name, record(**{"time": HOURS[name], **fields}))
        for name, fact in FACTS.items()
        for sent, fields in fact.sent
        if sent == round_
    ]


def base_values(load: int) -> dict[str, float | None]:
    """The base files' temperature of every hour that has one, in the first or the second load."""
    return {HOURS[name]: fact.base[load] for name, fact in FACTS.items() if fact.base}
