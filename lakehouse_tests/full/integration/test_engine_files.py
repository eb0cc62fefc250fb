"""Workers of an engine write the data files of a log table, over Spark Connect."""

from pathlib import Path

import pytest

from lakehouse.ingest import merge
from lakehouse.ingest.batches import merge_all
from lakehouse.ledger.audit import audit
from lakehouse.settings import Settings
from lakehouse.spark import sessions
from lakehouse.spark.own_session import is_classic, restore_active_state
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.engines import running_engine
from lakehouse_tests.real.test_data_files import LINES, TABLE

pytestmark = pytest.mark.timeout(600)


@pytest.mark.invariant("3.1")
def test_workers_of_an_engine_write_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "MANY_BYTES", 0)
    monkeypatch.setattr(sessions, "running_session", lambda: None)  # tests before this one may have left a Spark here
    settings = Settings(home=tmp_path / "home", files=str(tmp_path / "files"), spark_driver_memory="1g", _env_file=None)
    (tmp_path / "files" / "things").mkdir(parents=True)
    (tmp_path / "files" / "things" / "1.json").write_bytes(LINES)
    with running_engine(settings), restore_active_state():
        session = build_session(settings)
        try:
            assert not is_classic(session)
            context = TableContext(session, settings, TABLE)
            merge_all(context)
            assert merge_all(context) == []
            assert sorted(row[0] for row in context.merged.rows().select("id").collect()) == [1, 2, 3, 4, 6]
            names = [file.name for file in Path(context.merged.layout.uri).glob("*.parquet")]
            assert [name for name in names if "-c000" not in name], "neither Spark nor deltalake wrote it"
            assert all(finding.passed for finding in audit(context.ledger()))
        finally:
            stop_session(session)
