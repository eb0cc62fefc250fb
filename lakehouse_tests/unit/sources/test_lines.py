"""Lines of files: every split into chunks gives the same records, at the same places."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.decoding.files import contents, reader
from lakehouse.decoding.files.lines import FileChangedError, lines_of, split_lines
from lakehouse.decoding.files.reader import FileForm, FilePart, read_part

LINES = st.lists(
    st.sampled_from(
        [b"\n", b"\r\n", b" \t\n", b"x\n", b"\r\r\n", b'{"a": 1}\n', b"y" * 70 + b"\r\n", b"\x00\n", b'"\n']
    ),
    max_size=12,
)
LAST = st.sampled_from([b"", b"z", b"zz\r", b" "])


def expected(data: bytes) -> list[tuple[int, bytes]]:
    """The lines that are not blank, with the byte at which each begins."""
    records, begin = [], 0
    for line in data.split(b"\n"):
        text = line.removesuffix(b"\r") if begin + len(line) < len(data) or not line.endswith(b"\r") else line[:-1]
        if text.strip(b" \t\r"):
            records.append((begin, text))
        begin += len(line) + 1
    return records


def read(file: Path, parts: list[FilePart]) -> list[tuple[int, bytes | None]]:
    return [
        (int(place), value.as_py())
        for part in parts
        for records in read_part(part, FileForm())
        for place, value in zip(records.places, records.values, strict=True)
    ]


@pytest.fixture(scope="module")
def small_chunks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (contents, reader):
            patch.setattr(module, "CHUNK", 64)
        yield tmp_path_factory.mktemp("files") / "lines"


@settings(deadline=None, max_examples=300)
@given(lines=LINES, last=LAST, size=st.integers(1, 3))
def test_every_split_of_a_file_gives_its_lines(small_chunks: Path, lines: list[bytes], last: bytes, size: int) -> None:
    data = b"".join(lines) + last
    small_chunks.write_bytes(data)
    hashes = contents.chunk_hashes(str(small_chunks.parent), small_chunks.name)
    whole = [FilePart(str(small_chunks.parent), small_chunks.name, hashes)]
    parts = [
        FilePart(str(small_chunks.parent), small_chunks.name, hashes, first, min(size, len(hashes) - first))
        for first in range(0, len(hashes), size)
    ]
    assert read(small_chunks, whole) == expected(data)
    assert read(small_chunks, parts) == expected(data)


@pytest.mark.invariant("9.10")
def test_a_part_of_a_changed_file_gives_its_numbered_lines_or_fails(small_chunks: Path) -> None:
    data = b"".join(b"%03d %s\n" % (number, b"x" * (number * 7 % 90)) for number in range(12)) + b"end"
    small_chunks.write_bytes(data)
    folder, hashes = str(small_chunks.parent), contents.chunk_hashes(str(small_chunks.parent), small_chunks.name)
    parts = [FilePart(folder, small_chunks.name, hashes, first, 1) for first in range(len(hashes))]
    numbered_lines = [read(small_chunks, [part]) for part in parts]
    places = [(at, octet) for at in range(len(data)) for octet in b"?\n" if data[at] != octet]
    changed = [data[:at] + bytes([octet]) + data[at + 1 :] for at, octet in places]
    failures = 0
    for bytes_ in (*changed, data + b"ing\n", data[:-1]):
        small_chunks.write_bytes(bytes_)
        for part, lines in zip(parts, numbered_lines, strict=True):
            try:
                assert read(small_chunks, [part]) == lines
            except FileChangedError:
                failures += 1
    assert failures >= len(changed)


def test_a_line_break_within_quotes_belongs_to_the_line() -> None:
    data = b'1,"a\nb"\n2,"c ""\n"" d"\n3,e\n'
    parts = [data[index : index + 5] for index in range(0, len(data), 5)]
    values = [value for _, values in split_lines(iter(parts), in_quotes=True) for value in values.to_pylist()]
    assert values == [b'1,"a\nb"', b'2,"c ""\n"" d"', b"3,e"]


@pytest.mark.parametrize("data", [b'1,5" pipe\n2,x\n', b'"\n', b'a\n"b\nc'])
def test_a_quote_that_is_never_closed_ends_with_the_contents(data: bytes) -> None:
    values = [value for _, values in split_lines(iter([data]), in_quotes=True) for value in values.to_pylist()]
    assert b"\n".join(values) == data


def test_places_continue_where_the_part_begins() -> None:
    places, values = lines_of(b"a\nb", 100)
    assert (places.tolist(), values.to_pylist()) == ([100, 102], [b"a", b"b"])
