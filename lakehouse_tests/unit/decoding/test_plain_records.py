"""The quick path decodes as the strict one does: the same rows, the same reasons, and not only mostly."""

from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings

from lakehouse.declaration import BrokerTime, Column, Late, RecordHeader, RecordKey
from lakehouse.decoding import verdicts
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.fast import plain_records
from lakehouse.decoding.fast.plain_records import decode_plain
from lakehouse.decoding.fields import OF_SCHEMAS, REASONS, TIMELESS, Rejection
from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.records import decode, parse
from lakehouse.decoding.staged import NULL_SAID
from lakehouse.decoding.times import judge_late
from lakehouse.decoding.values import says_null
from lakehouse.decoding.verdicts import Rules, decode_values
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.tables.written import EDGES, NUMBERS, ODD, TIME_TEXTS, TIMES, WHOLE, Written, batches

pytestmark = pytest.mark.invariant(8, 13)

GOOD = b'{"latitude":51.5,"longitude":-0.099990845,"time":"2023-01-01T05:00","temperature_2m":10.4}'
RULES = Rules(temperatures.fields, None)


def expected(value: bytes | None, arrived: int | None, rules: Rules) -> dict[str, Any]:
    verdict: dict[str, Any] = {"_reason": None, "_detail": None, "_late": False}
    row: dict[str, Any] = {}
    try:
        found = decode(value, rules.fields, {TIME: arrived})
        if rules.late and arrived is not None:
            verdict["_late"] = judge_late(found, arrived, rules.late)
        row = found
    except Rejection as no:
        verdict = {"_reason": no.reason, "_detail": no.detail, "_late": no.reason == "late"}
    said = {f"{NULL_SAID}{f.name}": bool(row) and says_null(parse(value), f) for f in rules.fields if f.null_erases}
    return verdict | {field.name: row.get(field.name) for field in rules.fields} | said


def decoded(written: Written) -> pa.StructArray:
    arrays = pa.array(written.values, pa.binary()), pa.array(written.arrived, pa.int64())
    return decode_values(*arrays, written.rules, decode_plain).verdicts


def exactly(row: dict[str, Any]) -> dict[str, str]:
    """Each value as it is written out: with the sign of a zero, the places of a decimal, the offset of a time."""
    return {name: value.isoformat() if isinstance(value, date) else repr(value) for name, value in row.items()}


def same(written: Written) -> list[dict[str, Any]]:
    """Decode, compare with the strict rules one by one, to the sign of a zero, and return the rows."""
    found = decoded(written)
    found.validate(full=True)
    rows = found.to_pylist()
    for value, arrived, row in zip(written.values, written.arrived, rows, strict=True):
        assert exactly(row) == exactly(expected(value, arrived, written.rules)), value
    for field in written.rules.fields:
        assert found.field(field.name).type == arrow_type(field.type)
    return rows


def of_one(column: Column, texts: list[str], late: Late | None = None) -> Written:
    """Each text as the value of the column, in a record of its own."""
    records: list[bytes | None] = [f'{{"n":{text}}}'.encode() for text in texts]
    return Written(records, [10**15] * len(records), Rules((column.field,), late.rule if late else None))


def one_of_each_reason() -> Written:
    day = Column("n", "DATE", "A day.", pattern="%Y-%m-%d", required=True)
    few = Column("few", "INT", "A count.", between=(0, 9))
    text = Column("text", "STRING", "A text.")
    written = (
        '| |\xff|{"n":|{,|{}x|{"n":1,"n":1}|{"n":NaN}|1|{}|{"n":null}|{"n":1}|{"n":"1.1.23"}|{"n":"2023-02-29"}'
        '|{"n":"2023-02-28","few":10}|{"n":"2023-02-28","text":"\\ud800"}|{"n":"2023-02-27"}|{"n":"2023-02-28"}'
    )
    values = [None, *(each.encode("latin-1") for each in written.split("|"))]
    late = Late("n", timedelta(days=1)).rule
    noon = 1_677_585_600_000_000  # of 28 February 2023
    return Written(values, [noon] * len(values), Rules((day.field, few.field, text.field), late))


def test_generated_and_spoiled_records_of_every_type_become_the_same() -> None:
    seen: set[str] = set()
    plain = 0

    @settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck), database=None)
    @given(batches())
    @example(one_of_each_reason())
    def compare(written: Written) -> None:
        nonlocal plain
        rows = same(written)
        seen.update(row["_reason"] for row in rows)
        arrays = pa.array(written.values, pa.binary()), pa.array(written.arrived, pa.int64())
        plain += len(rows) - len(decode_plain(*arrays, written.rules).doubtful)
        quickly, strictly = (decode_values(*arrays, written.rules, path).others for path in (decode_plain, None))
        assert quickly == strictly

    compare()
    assert seen == {None, *REASONS} - {*OF_SCHEMAS, TIMELESS, "too_large"}
    assert plain > 20


@pytest.mark.parametrize("type_", [*NUMBERS, "STRING", "BOOLEAN"])
@pytest.mark.parametrize("between", [None, (0.1, 0.3), (-1, 12345.0), (2**53 + 1, 2**53 + 3)])
def test_every_odd_number_and_value_becomes_the_same(type_: str, between: tuple[float, float] | None) -> None:
    if type_ not in NUMBERS:
        between = None
    same(of_one(Column("n", type_, "A field.", between=between), [*EDGES, *ODD]))


@pytest.mark.parametrize("pattern", [*TIMES, "%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%Y"])
@pytest.mark.parametrize("policy", ["accept", "reject"])
def test_every_odd_time_becomes_the_same(pattern: str, policy: Any) -> None:
    column = Column("n", "TIMESTAMP", "A time.", pattern=pattern)
    same(of_one(column, [*TIME_TEXTS, *ODD], Late("n", timedelta(days=9000), policy)))


@pytest.mark.parametrize("epoch", ["seconds", "milliseconds", "microseconds", "days"])
def test_every_odd_number_that_is_a_time_becomes_the_same(epoch: Any) -> None:
    type_ = "DATE" if epoch == "days" else "TIMESTAMP"
    edges = [-62135596801, -62135596800, 253402300799, 253402300800, -719163, -719162, 2932896, 2932897]
    written = [str(edge * unit) + part for edge in edges for unit in (1, 10**3, 10**6) for part in ("", ".9999995")]
    same(of_one(Column("n", type_, "A time.", epoch=epoch), [*EDGES, *ODD, *written]))


@pytest.mark.parametrize("path", [("a",), ("o", "a"), ("o", "o", "a")])
@pytest.mark.parametrize("rules", [{}, {"required": True}, {"default": "x"}])
def test_a_value_within_others_becomes_the_same_whatever_is_on_the_way(path: Any, rules: Any) -> None:
    column = Column("n", "STRING", "A text.", source=path, **rules)
    written = [f'{{"o":{odd}}}' for odd in ODD] + [f'{{"o":{{"o":{odd}}}}}' for odd in ODD]
    written += ['{"o":{"a":"y","a":"z"}}', '{"o":{"a":"y"},"o":{"a":"y"}}', '{"o":{"a":"y"},"a":"z"}', '{"o.a":"y"}']
    # a default is no text of the record: a name that stands twice is not made up for by one
    written += ['{"b":1,"b":2}', '{"b":1,"b":2,"c":3}', '{"b":"a","b":"a"}', '{"a":"y","b":1,"b":1}']
    same(Written([each.encode() for each in written], [None] * len(written), Rules((column.field,), None)))


@pytest.mark.parametrize("rules", [{}, {"required": True}, {"default": "x"}])
@pytest.mark.parametrize("former", ["b", ("o", "b")])
def test_a_value_by_the_name_its_field_had_becomes_the_same(former: Any, rules: Any) -> None:
    column = Column("n", "STRING", "A text.", source="a", formerly=former, **rules)
    written = [f'{{"a":{odd},"b":"y"}}' for odd in ODD] + [f'{{"b":{odd}}}' for odd in ODD]
    written += [f'{{"o":{odd}}}' for odd in ODD] + [f'{{"o":{{"b":{odd}}}}}' for odd in ODD]
    written += ['{"a":"y","b":1,"b":2}', '{"b":"y","b":"y"}', '{"a":"y","o":{"b":1}}', '{"c":"y","c":"y"}', "{}"]
    same(Written([each.encode() for each in written], [None] * len(written), Rules((column.field,), None)))


@pytest.mark.parametrize(
    ("type_", "default"),
    [("STRING", "7"), ("INT", 7), ("DOUBLE", 7), ("DECIMAL(9,3)", 7), ("BOOLEAN", True), ("TIMESTAMP", "2026")],
)
@pytest.mark.parametrize("rule", ["", "required", "default"])
def test_what_stands_for_null_becomes_the_same(type_: str, default: Any, rule: str) -> None:
    rules: dict[str, Any] = {"": {}, "required": {"required": True}, "default": {"default": default}}[rule]
    pattern = "%Y" if type_ == "TIMESTAMP" else None
    nulls = ("", "n/a", "-999", "1", "true", "-99.9", "9.96921e+36")
    column = Column("n", type_, "A field.", null_values=nulls, pattern=pattern, **rules)
    written = ['"n/a"', '""', '"N/A"', '"-999"', "-999", "-999.0", "-9.99e2", "-999.0000000000000001", "1", '"true"']
    written += ["-99.9", "-99.90", "-9.99e1", "-99.90000000000000000001", "-99.8", "9.96921e36"]
    same(of_one(column, [*written, "true", *EDGES, *ODD]))


@pytest.mark.parametrize("path", [("n",), ("o", "n")])
def test_a_null_a_placeholder_and_a_missing_field_are_told_apart(path: Any) -> None:
    column = Column(
        "n", "INT", "A.", source=path, formerly="was", null_values=("n/a", "-1"), keep=True, null_erases=True
    )
    inner = ["{}", '{"n":null}', '{"n":"n/a"}', '{"n":-1}', '{"n":-1.0}', '{"n":5}', '{"was":null}', '{"was":"n/a"}']
    written = inner if path == ("n",) else [f'{{"o":{each}}}' for each in inner[:6]] + ['{"was":null}', '{"was":"n/a"}']
    written += ['{"o":null}', '{"x":null}', '{"n":null,"was":5,"o":{"n":null}}']
    rows = same(Written([each.encode() for each in written], [None] * len(written), Rules((column.field,), None)))
    said = [nth for nth, row in enumerate(rows) if row[f"{NULL_SAID}n"]]
    assert said == [1, 6, *([8] if path == ("o", "n") else []), 10]  # a null on the way is one
    assert [row["_reason"] for row in rows] == [None] * len(written)


def test_a_value_of_another_type_beside_a_default_does_not_make_up_for_a_name_that_stands_twice() -> None:
    text, count = Column("s", "STRING", "A text.", default="x"), Column("b", "INT", "A count.")
    records: list[bytes | None] = [b'{"s":5}', b'{"b":1,"b":2}']
    rows = same(Written(records, [None, None], Rules((text.field, count.field), None)))
    assert [row["_reason"] for row in rows] == ["wrong_type", "duplicate_name"]


@pytest.mark.parametrize("policy", ["accept", "reject"])
@pytest.mark.parametrize("after", [timedelta(0), timedelta(days=1), timedelta.max])
def test_a_broker_time_however_far_away_is_judged_the_same(policy: Any, after: timedelta) -> None:
    column = Column("n", "TIMESTAMP", "A time.", pattern="%Y")
    years = ['"0001"', '"1970"', '"9999"', "null"]
    for arrived in (None, 0, 86_400_000_000, 86_400_000_001, 2**62, 2**63 - 1, -(2**62), -(2**63)):
        written = of_one(column, years, Late("n", after, policy))
        same(Written(written.values, [arrived] * len(years), written.rules))


@pytest.mark.parametrize("depth", [1, 49, 50, 51, 300, 1015, 5000])
def test_fields_nobody_declared_may_be_nested_as_deeply_as_the_strict_rules_say(depth: int) -> None:
    lists = f'{{"n":1,"o":{"[" * depth}"x"{"]" * depth}}}'
    objects, bare = lists.replace("[", '{"o":').replace("]", "}"), lists.replace('"x"', "")
    rules = Rules((Column("n", "INT", "A count.").field,), None)
    same(Written([each.encode() for each in (lists, objects, bare)], [None] * 3, rules))


def test_a_record_is_looked_through_once_however_many_zeros_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bytes] = []
    monkeypatch.setattr(plain_records, "_FAR", SimpleNamespace(search=looked.append))
    columns = [Column(f"n{nth}", "DECIMAL(9,6)", "A number.", default=0) for nth in range(9)]
    zeros = b"{" + b",".join(b'"n%d":0' % nth for nth in range(9)) + b"}"
    rules = Rules(tuple(column.field for column in columns), None)
    assert not decode_plain(pa.array([zeros, b"{}"], pa.binary()), None, rules).doubtful
    assert looked == [zeros]


EPOCHS = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000}


@pytest.mark.parametrize("unit", EPOCHS)
@pytest.mark.parametrize("rules", [{}, {"default": 1767225600}])
def test_times_of_our_days_defaults_and_what_is_within_others_are_plainly_fine(unit: Any, rules: Any) -> None:
    at = Column("at", "TIMESTAMP", "A time.", epoch=unit, source=("o", "at"), **rules)
    money = Column("money", "DECIMAL(18,6)", "Money.", default=1)
    text = Column("text", "STRING", "A text.", source=("o", "text"))
    times = [f"{1_767_225_600 * EPOCHS[unit] + n}{part}" for n in range(50) for part in ("", ".25", ".123")]
    others = ["", ',"other":{"a":"x"}', ',"money":1000000000.5', ',"money":null']
    records: list[bytes | None] = [
        f'{{"o":{{"at":{time},"text":"x","{inside}":"y"}}{other}}}'.encode()
        for time in times
        for inside in ("inside", "b")
        for other in others
    ]
    written = Written(records, [None] * len(records), Rules((at.field, money.field, text.field), None))
    same(written)
    fine = decode_plain(pa.array(records, pa.binary()), None, written.rules)
    assert not fine.doubtful
    without: list[bytes | None] = [b'{"o":{}}'] * 5
    if rules:
        assert not decode_plain(pa.array(without, pa.binary()), None, written.rules).doubtful


PARTS = (
    (7).to_bytes(4, "big"),
    (-(2**62)).to_bytes(8, "big", signed=True),
    b"a\x7fb",
    b"\x0e",
    b"1",
    b"-0",
    b"0.5",
    b"1e3",
    b"0e9999999999",
    b"9" * 30,
    b"x",
    b"",
    b"\xff",
    b"true",
    b"null",
    b'"x"',
    b"2026-01-01",
)


@pytest.mark.parametrize("type_", [*NUMBERS, "STRING", "BOOLEAN", "DATE", "TIMESTAMP"])
@pytest.mark.parametrize("rules", [{}, {"required": True}, {"default": True}])
@pytest.mark.parametrize("source", [RecordKey(), RecordKey("any_text"), RecordKey("big_endian"), RecordHeader("it's")])
def test_what_stands_beside_the_value_becomes_the_same(type_: str, rules: dict[str, Any], source: Any) -> None:
    if source == RecordKey("big_endian") and type_ not in ("INT", "BIGINT"):
        return
    timed: dict[str, Any] = {"DATE": {"pattern": "%Y-%m-%d"}, "TIMESTAMP": {"epoch": "seconds"}}.get(type_, {})
    defaults = {"STRING": "x", "BOOLEAN": True, "DATE": "2026-01-01"}
    said = {"default": defaults.get(type_, 0)} if "default" in rules else rules
    column, other = Column("n", type_, "A part.", source=source, **timed, **said), Column("m", "INT", "A field.")
    told = pa.array([None, *PARTS], pa.binary())
    values = pa.array([b'{"m":1,"o":"x"}'] * len(told), pa.binary())
    rules_of_all = Rules((column.field, other.field), None)
    quickly, strictly = (
        decode_values(values, None, rules_of_all, path, {source.part: told}).verdicts for path in (decode_plain, None)
    )
    assert list(map(exactly, quickly.to_pylist())) == list(map(exactly, strictly.to_pylist()))
    assert {row["_reason"] for row in strictly.to_pylist()} <= {
        None,
        "invalid_utf8",
        "invalid_text",
        "missing_field",
        *OF_VALUES,
    }


OF_VALUES = ("wrong_type", "wrong_time_format", "out_of_range")


def test_the_broker_s_time_becomes_the_same_however_far_away() -> None:
    column = Column("n", "TIMESTAMP", "Broker time.", source=BrokerTime())
    times = [None, 0, 1_767_225_600_123_000, 253_402_300_800_000_000, -(2**63), 2**63 - 1]
    rows = same(Written([b"{}"] * len(times), times, Rules((column.field,), None)))
    assert [row["_reason"] for row in rows] == [None] * 3 + ["out_of_range"] * 3
    assert rows[2]["n"].isoformat() == "2026-01-01T00:00:00.123000+00:00"


def test_every_odd_value_becomes_the_same_among_good_ones() -> None:
    records: list[bytes | None] = []
    for odd in (None, *WHOLE, *(GOOD[:cut] for cut in range(len(GOOD)))):
        records += [GOOD, odd]
    assert {row["_reason"] for row in same(Written(records, [None] * len(records), RULES))} > {None, "truncated"}


@pytest.mark.parametrize(
    "text",
    [
        '{"n":1,"n":2}',
        '{"n":1,"n":1}',
        '{"n":1,"\\u006e":2}',
        '{"n":1,"o":"\\"","o":"\\"\\""}',
        '{"n":1,"o":"\\\\","o":1}',
        '{"n":1,"o":{"a":1,"a":1}}',
        '{"n":1,"o":[{"a":"","a":""}]}',
        '{"n":null,"n":1}',
        '{"n":1,"n":null}',
        '{"":1,"n":2,"":3}',
    ],
)
def test_a_name_that_stands_twice_is_seen(text: str) -> None:
    (row,) = same(Written([text.encode()], [None], Rules((Column("n", "INT", "A count.").field,), None)))
    assert row["_reason"] == "duplicate_name"


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()])
def test_a_part_of_an_array_is_decoded_as_the_whole(type_: pa.DataType) -> None:
    values = pa.array([GOOD, GOOD[:-1] + b',"latitude":51.5}', None, b'{"a":"\\"}', GOOD], type_)
    arrived = pa.array([1, None, 3, 4, 5], pa.int64())
    whole = decode_values(values, arrived, RULES, decode_plain).verdicts
    for begin in range(5):
        part = decode_values(values.slice(begin, 2), arrived.slice(begin, 2), RULES, decode_plain)
        assert part.verdicts.equals(whole.slice(begin, 2))
    assert len(decode_values(values[:0], arrived[:0], RULES, decode_plain).verdicts) == 0


@pytest.mark.parametrize(
    "odd",
    [
        b"{",
        b'{"latitude":"51.5","longitude":1,"time":"2023-01-01T05:00"}',
        b'{"latitude":1e19,"longitude":1,"time":1,"temperature_2m":12345678901234567890}',
        b'{"latitude":0.0000005,"longitude":1,"time":"2023-02-29T05:00"}',
        GOOD[:-1] + b',"other":1,"other":2}',
    ],
)
def test_only_the_record_that_is_not_plain_is_decoded_strictly(odd: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    strictly: list[bytes | None] = []

    def counted(value: bytes | None, *others: Any) -> Any:
        strictly.append(value)
        return judge(value, *others)

    judge = verdicts.judge
    monkeypatch.setattr(verdicts, "judge", counted)
    good = [
        GOOD,
        GOOD.replace(b"10.4", b"null"),
        GOOD[:-1] + b',"other":{"deep":["\\"\\""]}}',
        GOOD.replace(b",", b" ,\n"),
    ]
    records: list[bytes | None] = [*(good * 2500)[:9999], odd]
    assert len(decoded(Written(records, [None] * 10_000, RULES))) == 10_000
    assert strictly == [odd]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "record",
    [
        b'{"n":1,"o":"' + b'\\"' * 500_000,
        b'{"n":1,"o":"' + b"\\\\" * 250_000 + b'"}',
        b'{"n":1,"o":"\\n' + b"a" * 1_000_000 + b'"}',
        b'{"n":' + b"1" * 1_000_000 + b"}",
        b'{"n":0.' + b"0" * 1_000_000 + b"1}",
        b"[" * 1_000_000,
        b'{"n":1,' + b'"o":1,' * 150_000 + b'"o":1}',
    ],
    ids=["escapes", "backslashes", "text", "number", "fraction", "nested", "names"],
)
def test_a_record_as_long_as_a_broker_takes_is_decoded_in_a_moment(record: bytes) -> None:
    """What takes the square of its length would hold up a table for half an hour, at each new start."""
    for type_ in ("BIGINT", "DOUBLE", "DECIMAL(9,2)"):
        same(Written([record], [0], Rules((Column("n", type_, "d").field,), None)))
