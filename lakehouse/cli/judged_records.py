"""Records of a topic, decoded one by one as a merge would decode them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.decoding.judge import Verdict
    from lakehouse.decoding.rules import Rules
    from lakehouse.kafka import Record


def judge_record(record: "Record", rules: "Rules") -> "Verdict":
    """The row of a record, or why it is rejected; a record without a time is for the caller to reject."""
    from lakehouse.decoding.judge import judge
    from lakehouse.decoding.record_parts import HEADER

    record_parts = {"key": record.key, **{f"{HEADER}{name}": value for name, value in record.headers}}
    return judge(record.value, record.milliseconds * 1000, rules, record_parts)
