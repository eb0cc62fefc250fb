"""What the bytes of values show about their format: how they are compressed, and which format of texts they have."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Format
from lakehouse.decoding.formats.framing import FRAME_SIZE
from lakehouse.decoding.formats.texts.csv import Csv, CsvParser, placeholder_names
from lakehouse.decoding.formats.texts.logfmt import Logfmt, LogfmtParser
from lakehouse.decoding.formats.texts.text import Text
from lakehouse.decoding.formats.unpacking.compression import MAGIC, Codec
from lakehouse.decoding.json_parsing import utf8_text

_DELIMITERS = "\t;|,"
_MAX_COLUMNS = 1_000  # more separators are letters of a text
_LEAST_ROWS, _ROWS_PER_ODD_ROW = 4, 20
_PAIR = re.compile(r"(?:^|[ \t])[A-Za-z_@][\w.@-]*=(?=[^=\s])", re.ASCII)
_NO_TEXT = re.compile(r"[{\[]|.*[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", re.DOTALL)  # damaged JSON, or binary


def likely_codec(values: Sequence[bytes], *, framed: bool) -> Codec | None:
    """The codec with whose bytes most values begin, after the id of a schema if they are framed."""
    begin = FRAME_SIZE if framed else 0
    counts = {codec: sum(value.startswith(magic, begin) for value in values) for codec, magic in MAGIC.items()}
    return next((codec for codec, count in counts.items() if count * 2 > len(values)), None)


def likely_text_formats(values: Sequence[bytes]) -> tuple[Format, ...]:
    """The format of texts that these values have; empty if they are binary, or JSON that is damaged."""
    samples = [value for value in values if value.strip()]
    if _count(samples, lambda text: not _NO_TEXT.match(text)) * 2 <= len(samples):
        return ()
    if _count(samples, _is_logfmt) * 2 > len(samples):
        return (Logfmt(),)
    tables = [form for delimiter in _DELIMITERS if (form := _csv_of(samples, delimiter))]
    return (max(tables, key=lambda form: len(form.columns)),) if tables else (Text(),)


def _count(values: Sequence[bytes], matches: Callable[[str], bool]) -> int:
    """The number of values whose text matches."""
    count = 0
    for value in values:
        with suppress(Rejection):
            count += matches(utf8_text(value))
    return count


def _is_logfmt(text: str) -> bool:
    """Whether most of a line are pairs with a value."""
    return len(_PAIR.findall(text)) * 2 > len(LogfmtParser().parse_text(text))


def _csv_of(values: Sequence[bytes], delimiter: str) -> Csv | None:
    """CSV with a placeholder for each column, if all rows, or nearly all, have equally many fields."""
    tables = [(has_quotes, _count_fields(values, delimiter, has_quotes=has_quotes)) for has_quotes in (True, False)]
    has_quotes, (count, rows) = max(tables, key=lambda table: table[1][1])  # of equal ones, the first
    odd_rows = len(values) - rows
    is_table = odd_rows <= (max(1, len(values) // _ROWS_PER_ODD_ROW) if len(values) >= _LEAST_ROWS else 0)
    if not is_table or not 1 < count <= _MAX_COLUMNS:
        return None
    return Csv(placeholder_names(count), delimiter, quotes=has_quotes)


def _count_fields(values: Sequence[bytes], delimiter: str, *, has_quotes: bool) -> tuple[int, int]:
    """The most common number of fields, and how many rows have it."""
    parser, counts = CsvParser((), delimiter, has_quotes=has_quotes), Counter[int]()
    for value in values:
        with suppress(Rejection):
            counts[len(parser.split_row(utf8_text(value)))] += 1
    return next(iter(counts.most_common(1)), (0, 0))
