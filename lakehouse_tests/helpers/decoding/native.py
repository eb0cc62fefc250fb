"""The two parsers of JSON: records that the native one is certain of, and one record by the strict one."""

from collections.abc import Mapping

import pyarrow as pa

from lakehouse.decoding.json_parsing import find_native
from lakehouse.decoding.one_record import Verdict, judge_record
from lakehouse.decoding.record_parts import TIME
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.values import NO_PARTS
from lakehouse.decoding.verdicts import decode_once

NATIVE = find_native()


def uncertain_records(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, parts: Mapping[str, pa.Array] = NO_PARTS
) -> list[int]:
    """The places of the records that the native parser leaves to the strict one."""
    return list(decode_once(values, {**parts, TIME: broker_times}, rules, NATIVE)[1].tolist())


def judge(
    value: bytes | None, broker_time: int | None, rules: Rules, parts: Mapping[str, bytes | None] = NO_PARTS
) -> Verdict:
    """The verdict on the only row of a record."""
    (verdict,) = judge_record(value, rules, {**parts, TIME: broker_time})
    return verdict
