"""What ``publish`` checks before it sends: which lines of a file would be rejected, by reason."""

import time
from collections.abc import Iterable, Iterator
from itertools import accumulate, count, islice, pairwise
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.declaration import StreamTable

_CHUNK = 5_000  # lines that are decoded together
_SEND_ANYWAY = "Correct them, or send all lines with --force; the table stores rejected records with their reason."
_CORRECT = "Correct it. Nothing of a file was sent; of standard input, the lines before it were sent."


def require_records(table: "StreamTable", lines: Iterable[bytes], place: str) -> None:
    """Decode every line as declared; raise ``LakehouseError`` if any would be rejected.

    The error counts the lines by reason, with the first line of each. Lateness is not checked: it depends on when the
    broker receives a record. Lines that a schema encodes are not checked here, but when they are encoded.
    """
    if table.has_schemas:
        return
    examples: dict[str, str] = {}
    counts = dict[str, int]()
    total = 0
    for number, reason, detail in _verdicts(table, lines):
        total = number
        if reason:
            counts[reason] = counts.get(reason, 0) + 1
            examples.setdefault(reason, f"line {number}: {detail}")
    if counts:
        reasons = "; ".join(f"{reason}: {number:,} ({examples[reason]})" for reason, number in counts.items())
        raise LakehouseError(
            f"{sum(counts.values()):,} of {total:,} records would be rejected by table {table.name}: {reasons}",
            where=place,
            action=f"Nothing was sent. {_SEND_ANYWAY}",
        )


def checked_records(table: "StreamTable", lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines as they come; raise ``LakehouseError`` at the first line that would be rejected."""
    for number, line in enumerate(lines, 1):
        if not table.has_schemas:
            for _, reason, detail in _verdicts(table, [line], number):
                if reason:
                    raise LakehouseError(
                        f"Line {number:,} would be rejected by table {table.name}: {reason}: {detail}",
                        where="standard input",
                        action=f"Lines before it that were sent: {number - 1:,}. {_SEND_ANYWAY}",
                    )
        yield line


def _verdicts(
    table: "StreamTable", lines: Iterable[bytes], first: int = 1
) -> Iterator[tuple[int, str | None, str | None]]:
    """Number of each line; reason and detail if its record, as the table's format encodes it, would be rejected."""
    import pyarrow as pa

    from lakehouse.decoding.fast.plain_parsing import find_native
    from lakehouse.decoding.verdicts import decode_slices
    from lakehouse.kafka.publish import write_line

    rules, numbers = table.rules()._replace(lateness=None), count(first)
    rules = rules._replace(where=tuple(where for where in rules.where if where.is_about_value))  # lines have no headers
    writer, native = table.format.writer(), find_native()
    values = (write_line(writer, line, number, _CORRECT) for number, line in enumerate(lines, first))
    while chunk := list(islice(values, _CHUNK)):
        now = pa.array([time.time_ns() // 1000] * len(chunk), pa.int64())
        for decoded in decode_slices(pa.array(chunk, pa.binary()), now, rules, native):
            for rejection in _rejections(decoded.verdicts):
                yield next(numbers), *rejection


def _rejections(verdicts: "pa.Array") -> Iterator[tuple[str | None, str | None]]:
    """Why each record would be rejected, or the first of its rows that would be: reason and detail, or ``None``."""
    import pyarrow as pa

    from lakehouse.decoding.staged import DETAIL, NO_ROWS, REASON

    is_list = isinstance(verdicts, pa.ListArray)
    rows = verdicts.values if is_list else verdicts
    ends = [0, *accumulate(verdicts.value_lengths().to_pylist())] if is_list else range(len(rows) + 1)
    reasons, details = (rows.field(name).to_pylist() for name in (REASON, DETAIL))
    for begin, end in pairwise(ends):
        rejected = (row for row in range(begin, end) if reasons[row] and reasons[row] not in NO_ROWS)
        row = next(rejected, None)
        yield (None, None) if row is None else (reasons[row], details[row])
