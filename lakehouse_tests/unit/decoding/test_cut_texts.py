"""Lines that a regular expression, or places, cut into fields: the same verdicts for a batch and for each record."""

import random
import re

import pytest

from lakehouse.declaration import Column, FixedWidth, Regex, StreamTable
from lakehouse.decoding.formats.format import UnwritableError
from lakehouse.decoding.one_record import judge_record
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

PATTERN = r'(?P<who>\S+) \[(?P<at>[^\]]*)\] "(?P<text>.*)" (?P<size>\d+|-)'
PARTS = ["ann", "bob", " ", "[", "]", '"', "10", "-", "é", "\t", "x y", "\r", "\n", "�"]


def table_of(form: Regex | FixedWidth, *columns: Column) -> StreamTable:
    texts = [Column(name, "STRING", doc="") for name in form.field_names if name != "size"]
    size = [Column("size", "BIGINT", null_values=["-"], doc="")] if "size" in form.field_names else []
    return StreamTable("cut", "cut", doc="", format=form, columns=columns or [*texts, *size], key=[])


def random_lines(count: int, seed: int) -> list[bytes]:
    rng = random.Random(seed)

    def line() -> bytes:
        if rng.random() < 0.7:
            text = "".join(rng.choices(PARTS, k=rng.randrange(4)))
            whole = (
                f'{rng.choice(["ann", "é", "-"])} [{rng.choice(["", "now"])}] "{text}" {rng.choice(["10", "-", "x"])}'
            )
            return whole.encode() + rng.choice([b"", b"\n", b"\r\n", b"\xff"])
        return "".join(rng.choices(PARTS, k=rng.randrange(8))).encode()

    return [line() for _ in range(count)]


def test_a_batch_and_each_record_alone_give_what_python_matches() -> None:
    """100,000 lines with faults; the reference is Python's own engine, with the same meaning of a whole match."""
    lines = random_lines(100_000, seed=54)
    table, reference = (
        table_of(Regex(PATTERN)),
        re.compile(PATTERN.replace(r"\S", r"[^\t\n\f\r ]").replace(r"\d", "[0-9]")),
    )
    verdicts = rows_twice(lines, table.rules())
    matched = 0
    for line, verdict in zip(lines, verdicts, strict=True):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            assert verdict["_reason"] == "invalid_utf8"
            continue
        text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
        match = reference.fullmatch(text)
        if not line:
            assert verdict["_reason"] == "empty_value"
        elif match is None:
            assert verdict["_reason"] == "no_match", line
        else:
            matched += 1
            groups = {name: group or None for name, group in match.groupdict().items()}
            size = None if groups["size"] in ("-", None) else int(groups["size"])
            assert {name: verdict[name] for name in groups} == {**groups, "size": size}, line
    assert matched > 20_000
    for line, verdict in zip(lines[:500], verdicts, strict=False):
        (alone,) = judge_record(line, table.rules(), {})
        assert (alone.reason, alone.row or None) == (
            verdict["_reason"],
            None if verdict["_reason"] else {name: verdict[name] for name in ("who", "at", "text", "size")},
        )


def test_an_expression_that_other_engines_never_finish_takes_no_longer() -> None:
    table = table_of(Regex(r"(?P<who>(?:a+)+)b"))
    (verdict,) = rows_twice([b"a" * 20_000], table.rules())
    assert verdict["_reason"] == "no_match"


def test_records_that_come_twice_and_in_slices_get_their_own_fields() -> None:
    table = table_of(Regex(r"(?P<who>\w+)"))
    lines = [f"name{number % 3_001}".encode() for number in range(9_000)]
    assert [verdict["who"].encode() for verdict in rows_twice(lines, table.rules())] == lines


def test_places_cut_a_line() -> None:
    table = table_of(FixedWidth([("who", 0, 5), ("size", 5, 9), ("text", 9, 99)]))
    rows = rows_twice([b"ann    12 x \r\n", "éé     -".encode(), b"ann", b"", b"ann   1,5"], table.rules())
    assert [(row["who"], row["size"], row["text"]) for row in rows[:3]] == [
        ("ann", 12, "x"),
        ("éé", None, None),
        ("ann", None, None),
    ]
    assert [row["_reason"] for row in rows] == [None, None, None, "empty_value", "wrong_type"]


@pytest.mark.parametrize("form", [Regex("(?P<id>.*)"), FixedWidth([("id", 0, 1)])])
def test_lines_cannot_be_written(form: Regex | FixedWidth) -> None:
    with pytest.raises(UnwritableError, match="reads lines as they are: send such lines with publish --raw"):
        form.writer()(b'{"id": 3}')


def test_lines_in_another_encoding_are_cut() -> None:
    table = table_of(Regex(r"(?P<who>\S+) .*", encoding="latin-1"))
    assert table.decode("Zoë x".encode("latin-1"))["who"] == "Zoë"
