"""The reasons of a run's rejected records: counted for its batches alone, with short samples."""

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.operations.rejections import SampledReason, sample_reasons
from lakehouse.settings import Settings


def write_rejected(settings: Settings, *rows: tuple[int, str, str | None, bytes | None]) -> None:
    columns = zip(*rows, strict=True)
    types = {"number": pa.int64(), "reason": pa.string(), "detail": pa.string(), "value": pa.binary()}
    table = pa.table(
        {name: pa.array(column, type_) for (name, type_), column in zip(types.items(), columns, strict=True)}
    )
    write_deltalake(settings.table_uri(temperatures.rejected_name), table, mode="append")


def test_only_the_batches_of_the_run_count_and_samples_are_short(settings: Settings) -> None:
    write_rejected(settings, (1, "late", "older", b"old"), (2, "invalid_json", "x" * 500, b"{" * 5_000_000))
    write_rejected(settings, (3, "late", None, None), (3, "late", None, b"\xff"), (3, "too_large", "Long.", b"v"))
    assert sample_reasons(settings, temperatures, [2]) == [SampledReason("invalid_json", 1, "x" * 200, "{" * 200)]
    late, large = sample_reasons(settings, temperatures, [3])
    assert (late.reason, late.count, late.detail) == ("late", 2, "")
    assert (large.reason, large.count, large.value) == ("too_large", 1, "v")


def test_bytes_that_are_no_text_are_replaced(settings: Settings) -> None:
    write_rejected(settings, (1, "not_utf8", "Bad.", b"\xff{"))
    assert sample_reasons(settings, temperatures, [1]) == [SampledReason("not_utf8", 1, "Bad.", "\ufffd{")]


def test_a_missing_file_or_column_fails_no_run(settings: Settings, tmp_path: Path) -> None:
    write_rejected(settings, (1, "late", "older", b"old"))
    folder = Path(settings.table_uri(temperatures.rejected_name))
    next(folder.glob("*.parquet")).unlink()
    assert sample_reasons(settings, temperatures, [1]) == []
    other_settings = Settings(home=tmp_path / "other")
    write_deltalake(other_settings.table_uri(temperatures.rejected_name), pa.table({"reason": ["late"]}))
    assert sample_reasons(other_settings, temperatures, [1]) == []


def test_there_is_no_reason_without_a_table_or_if_it_cannot_be_read(settings: Settings) -> None:
    assert sample_reasons(settings, temperatures, [1]) == []
    log = Path(settings.table_uri(temperatures.rejected_name), "_delta_log")
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{")
    assert sample_reasons(settings, temperatures, [1]) == []
