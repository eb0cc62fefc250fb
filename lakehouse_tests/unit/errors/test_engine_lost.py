"""What an engine that ended, or gave a session up, is known by."""

import grpc
import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException, SparkException

from lakehouse.errors import EngineLostError
from lakehouse.errors.troubles import is_gone
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import again

DEAD = "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = Socket closed>"


@pytest.mark.parametrize(
    "error",
    [
        SparkConnectGrpcException(DEAD, grpc_status_code=grpc.StatusCode.UNAVAILABLE),
        SparkException("[INVALID_HANDLE.SESSION_CLOSED] The handle 9e10 is invalid. Session was closed."),
        SparkException("[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance has restarted."),
        SparkException("[INVALID_HANDLE.OPERATION_ABANDONED] Operation was considered abandoned."),
        SparkException("[OPERATION_CANCELED] Operation has been canceled."),
    ],
    ids=["dead", "expired", "restarted", "given up", "interrupted"],
)
def test_the_end_of_an_engine_or_of_a_session_is_an_error_of_its_own_and_no_sign_of_lost_tables(
    error: Exception,
) -> None:
    tried = []

    def step() -> None:
        tried.append(error)
        raise error

    with pytest.raises(EngineLostError, match="engine.*Run it again"), spark_failures("/t"):
        raise error
    with pytest.raises(EngineLostError):
        again(step)
    assert len(tried) == 1, "the session is gone: to try again in it is of no use"
    assert not is_gone(error)
