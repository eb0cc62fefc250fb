"""Generated records: the value of each is a pure function of a seed and the number of the record."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5

Writer = Callable[[int], str]
"""Writes a field of the record of a number as JSON."""


@dataclass(frozen=True)
class Counter:
    """The number of the record, from 0; with ``modulo``, the remainder after a division by it."""

    modulo: int | None = None

    def writer(self, seed: int, name: str) -> Writer:  # noqa: ARG002 - a count is the same for every seed
        """Return the function that writes the field."""
        modulo = self.modulo
        return str if modulo is None else lambda number: str(number % modulo)


@dataclass(frozen=True)
class Hash:
    """An MD5 hash of the seed, the name of the field and the number of the record: 32 hexadecimal digits."""

    def writer(self, seed: int, name: str) -> Writer:
        """Return the function that writes the field."""
        prefix = f"{seed}:{name}:"
        return lambda number: f'"{_hash(prefix, number).hex()}"'


@dataclass(frozen=True)
class Choice:
    """One of the values, each as often as any other, in an order that only the seed and the name decide."""

    values: Sequence[str | int | float | bool | None]

    def writer(self, seed: int, name: str) -> Writer:
        """Return the function that writes the field."""
        prefix, texts = f"{seed}:{name}:", [json.dumps(value) for value in self.values]
        return lambda number: texts[int.from_bytes(_hash(prefix, number)[:8]) % len(texts)]


GeneratedField = Counter | Hash | Choice


def value_writer(fields: Mapping[str, GeneratedField], seed: int) -> Callable[[int], bytes]:
    """Return the function that writes the value of the record of a number: a JSON object with these fields."""
    pairs = [(f"{json.dumps(name)}: ", field.writer(seed, name)) for name, field in fields.items()]

    def write(number: int) -> bytes:
        return f"{{{', '.join([name + writer(number) for name, writer in pairs])}}}".encode()

    return write


def microseconds_of(number: int, rate: int) -> int:
    """Return the time of the record of a number, in microseconds since the start, at ``rate`` records per second."""
    return number // rate * 1_000_000 + number % rate * 1_000_000 // rate


def _hash(prefix: str, number: int) -> bytes:
    return md5(f"{prefix}{number}".encode(), usedforsecurity=False).digest()
