"""The settings of a session, started here or joined over Spark Connect."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from lakehouse import spark
from lakehouse.settings import Settings


@pytest.mark.invariant(1)
def test_auto_compaction_is_off_in_a_session_that_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would copy the metadata of a batch into a second commit."""
    builder: Any = MagicMock()
    monkeypatch.setattr(spark, "SparkSession", builder)
    monkeypatch.setattr(spark, "_accepts", lambda *_: True)
    spark.build_session(Settings(spark_remote="sc://127.0.0.1:1", _env_file=None))
    told = dict(call.args for call in builder.builder.remote().create().conf.set.call_args_list)
    assert told["spark.databricks.delta.autoCompact.enabled"] == "false"
