"""Records of a topic, decoded one by one as a merge would decode them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.decoding.judge import Verdict
    from lakehouse.decoding.rules import Rules
    from lakehouse.kafka import Record
    from lakehouse.sources.files.newest import FileRecord
    from lakehouse.sources.generated.newest import GeneratedRecord

    AnyRecord = Record | FileRecord | GeneratedRecord


def judge_record(record: "AnyRecord", rules: "Rules") -> "Verdict":
    """The row of a record, or why it is rejected; a record without a time is for the caller to reject."""
    from lakehouse.decoding.judge import judge

    return judge(record.value, record.milliseconds * 1000, rules, _parts_of(record))


def judge_rows(record: "AnyRecord", rules: "Rules") -> "list[tuple[int | None, Verdict]]":
    """Like ``judge_record``, for each row of a record, with its place; ``None`` if the record is judged as a whole."""
    from lakehouse.decoding.elements import judge_elements

    if rules.rows_from is None:
        return [(None, judge_record(record, rules))]
    judged = judge_elements(record.value, record.milliseconds * 1000, rules, _parts_of(record))
    return [(index if judged.has_elements else None, verdict) for index, verdict in enumerate(judged.verdicts)]


def _parts_of(record: "AnyRecord") -> dict[str, bytes | None]:
    from lakehouse.decoding.record_parts import HEADER

    return {"key": record.key, **{f"{HEADER}{name}": value for name, value in record.headers}}
