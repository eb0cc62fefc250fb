"""The whole path with real weather data: the published counts are exact."""

import gzip
import tarfile
from collections import Counter

import pytest

from lakehouse.ingest.load import load_base
from lakehouse.kafka import publish
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.places import ROOT

REAL_DATA = ROOT.parent / "shared" / "data"
BY_YEAR = {2009: 10, 2019: 52_560, 2020: 52_704, 2021: 52_560, 2022: 52_560, 2023: 26_064}

pytestmark = [
    pytest.mark.invariant("3.3", "7.1"),
    pytest.mark.skipif(not REAL_DATA.is_dir(), reason=f"the real weather files are not at {REAL_DATA}"),
]


@pytest.mark.timeout(600)
def test_real_weather_gives_the_known_counts(spark, broker, tmp_path):
    stream = Stream.create(spark, broker)
    with tarfile.open(REAL_DATA / "open_meteo" / "base_2019_2022.tar.gz") as archive:
        archive.extractall(tmp_path / "base", filter="data")
    base_outcome = load_base(TableContext(spark, broker, stream.table), tmp_path / "base")
    assert (base_outcome.files, base_outcome.rows, base_outcome.superseded) == (24, 210_384, 0)
    stream.merge()
    assert stream.sql("SELECT count(*), count(_record.position) FROM {t}") == [(210_384, 0)]

    assert publish(broker, stream.table, lines("stream_2023.jsonl.gz")) == 26_064
    outcomes = stream.merge(max_records=10_000)
    assert len(outcomes) == 3
    assert sum((Counter(counts(outcome.entry)) for outcome in outcomes), Counter()) == Counter(
        read=26_064, inserted=26_064
    )
    assert stream.sql("SELECT count(*), count_if(temperature_2m IS NULL) FROM {t}") == [(236_448, 96)]

    assert publish(broker, stream.table, lines("update_payload.jsonl.gz")) == 8_770
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=8_770, rejected=0, superseded=0, inserted=10, updated=8_760, stale=0)
    by_year = dict(stream.sql("SELECT year(observed_at), count(*) FROM {t} GROUP BY 1"))
    assert by_year == BY_YEAR
    assert sum(by_year.values()) == 236_458

    rows = stream.snapshot()
    assert {counts(outcome.entry)["stale"] for outcome in stream.replay()} == {34_834}
    assert stream.snapshot() == rows
    stream.refresh()
    stream.assert_accounted()
    assert verify_keys(TableContext(spark, broker, stream.table)).passed
    assert verify_rollup(TableContext(spark, broker, stream.table), stream.table.rollups[0]).passed


def lines(name: str) -> list[bytes]:
    return gzip.decompress((REAL_DATA / name).read_bytes()).splitlines()
