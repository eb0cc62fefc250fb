"""``Generated``: records that are computed, as the source of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.decoding.generated import Choice, Counter, GeneratedField, Hash


def _default_fields() -> dict[str, GeneratedField]:
    return {"md5": Hash(), "value": Counter(), "hash": Counter(modulo=1_000_000)}


@dataclass(frozen=True)
class Generated:
    """Records that are computed, ``rate`` per second in all partitions together, for load and demonstrations.

    A record is a JSON object with ``fields``: a ``Counter``, a ``Hash`` or a ``Choice`` for each name. It is a pure
    function of ``seed``, partition and position, so a replay, another process and another machine give the same bytes.
    Record 0 is of partition 0, record 1 of partition 1, and so on. The time of record n is n / ``rate`` seconds after
    the start: ``since``, a time with a zone, else the time at which the table was created. A record exists once its
    time has passed. ``count`` limits how many there ever are.
    """

    rate: int = 10_000
    partitions: int = 100
    seed: int = 0
    fields: Mapping[str, GeneratedField] = field(default_factory=_default_fields)
    since: datetime | None = None
    count: int | None = None

    position_noun: ClassVar[str] = "record"
    asset_suffix: ClassVar[str] = "generator"

    @property
    def text(self) -> str:
        """The generator, as a sentence names it."""
        return f"generator {self.stream}"

    @property
    def stream(self) -> str:
        """The name of the source in commits."""
        return f"{self.rate}-per-second-{self.digest[:8]}"

    @property
    def digest(self) -> str:
        """A hash of what decides the records: not of the start, and not of their count."""
        return fingerprint_of(*self.fingerprint_parts)

    @property
    def fingerprint_parts(self) -> tuple[object, ...]:
        """What decides which records there are."""
        fields = [(n, "choice", *f.values) if isinstance(f, Choice) else (n, f) for n, f in self.fields.items()]
        return ("generated", self.rate, self.partitions, self.seed, *fields)
