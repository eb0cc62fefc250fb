"""What ``publish`` finds before it sends: which lines of a file would be rejected, by reason."""

import time
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable

_AT_ONCE = 5_000  # lines that are decoded together
_SEND_ANYWAY = "Correct them, or send all of them with --force; the rejected ones are kept with their reason."
_CORRECT = "Correct it. Of a file nothing was sent, of standard input the lines before it."


def require_records(table: "StreamTable", lines: Iterable[bytes], place: str) -> None:
    """Decode every line by the declaration; raise ``LakehouseError`` if any would be rejected.

    The error counts the lines by reason, with the first line of each. Lateness is not judged: it depends on when the
    broker receives a record. Lines that are written by a schema are not checked here; writing them is.
    """
    if table.has_schemas:
        return
    examples: dict[str, str] = {}
    rejected = dict[str, int]()
    total = 0
    for number, reason, detail in _verdicts(table, lines):
        total = number
        if reason:
            rejected[reason] = rejected.get(reason, 0) + 1
            examples.setdefault(reason, f"line {number}: {detail}")
    if rejected:
        reasons = "; ".join(f"{reason} {many:,} ({examples[reason]})" for reason, many in rejected.items())
        wrong = sum(rejected.values())
        raise LakehouseError(
            f"{wrong:,} of {total:,} records would be rejected by table {table.name}: {reasons}",
            where=place,
            action=f"Nothing was sent. {_SEND_ANYWAY}",
        )


def checked_records(table: "StreamTable", lines: Iterable[bytes]) -> Iterator[bytes]:
    """Give lines on as they come; raise ``LakehouseError`` at the first that would be rejected."""
    for number, line in enumerate(lines, 1):
        if not table.has_schemas:
            for _, reason, detail in _verdicts(table, [line], number):
                if reason:
                    raise LakehouseError(
                        f"Line {number:,} would be rejected by table {table.name}: {reason}: {detail}",
                        where="standard input",
                        action=f"The {number - 1:,} lines before it were sent. {_SEND_ANYWAY}",
                    )
        yield line


def _verdicts(
    table: "StreamTable", lines: Iterable[bytes], first: int = 1
) -> Iterator[tuple[int, str | None, str | None]]:
    """The number of each line, and the reason and detail if what its table's format writes would be rejected."""
    import pyarrow as pa

    from lakehouse.decoding.fast.plain_records import decode_plain
    from lakehouse.decoding.staged import DETAIL, REASON
    from lakehouse.decoding.verdicts import Rules, decode_slices
    from lakehouse.kafka.publish import written

    rules, numbers = Rules(table.fields, None, table.format.parser()), count(first)
    write = table.format.writer()
    values = (written(write, line, number, _CORRECT) for number, line in enumerate(lines, first))
    while some := list(islice(values, _AT_ONCE)):
        now = pa.array([time.time_ns() // 1000] * len(some), pa.int64())
        for decoded in decode_slices(pa.array(some, pa.binary()), now, rules, decode_plain):
            reasons = (decoded.verdicts.field(name).to_pylist() for name in (REASON, DETAIL))
            yield from zip(numbers, *reasons)  # noqa: B905 - numbers have no end
