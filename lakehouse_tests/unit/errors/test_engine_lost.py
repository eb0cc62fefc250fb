"""Signs of an engine that ended or closed a session."""

import grpc
import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException, SparkException

from lakehouse.errors import EngineLostError
from lakehouse.errors.troubles import is_version_gone
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import retry_on_conflict

NO_ENGINE = (
    "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = Socket closed>"
)


@pytest.mark.parametrize(
    "error",
    [
        SparkConnectGrpcException(NO_ENGINE, grpc_status_code=grpc.StatusCode.UNAVAILABLE),
        SparkException("[INVALID_HANDLE.SESSION_CLOSED] The handle 9e10 is invalid. Session was closed."),
        SparkException("[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance has restarted."),
        SparkException("[INVALID_HANDLE.OPERATION_ABANDONED] Operation was considered abandoned."),
        SparkException("[OPERATION_CANCELED] Operation has been canceled."),
    ],
    ids=["dead", "expired", "restarted", "abandoned", "interrupted"],
)
def test_a_lost_engine_or_session_has_its_own_error_and_is_no_sign_of_lost_tables(error: Exception) -> None:
    attempts = []

    def step() -> None:
        attempts.append(error)
        raise error

    with pytest.raises(EngineLostError, match="engine.*Run it again"), spark_failures("/t"):
        raise error
    with pytest.raises(EngineLostError):
        retry_on_conflict(step)
    assert len(attempts) == 1, "a retry in a closed session is useless"
    assert not is_version_gone(error)
