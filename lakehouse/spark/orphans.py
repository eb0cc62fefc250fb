"""End the work that a dead client left running on an engine: interrupt it and wait for its end.

The engine answers an interruption, and a request for the state of an operation, before the operation has ended
(observed). But a client that attaches to an operation again gets the final answer only when its thread has ended.
"""

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status
from pyspark.sql.connect import proto
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

from lakehouse.spark.connect import EngineChannel, open_channel
from lakehouse.spark.engine import is_engine_running

_CLOSE_SECONDS = 10.0  # seconds for work to end that the engine interrupted when it closed a session or an operation
_UNKNOWN_HANDLE = "INVALID_HANDLE"  # the engine no longer knows the operation or the session
_DISCONNECTED = "INVALID_CURSOR"  # another client, which lives, has attached to the operation
_POLL = 0.2
_State = proto.GetStatusResponse.OperationStatus.OperationState
_END_STATES = (_State.OPERATION_STATE_SUCCEEDED, _State.OPERATION_STATE_FAILED)


def end_work(folder: Path, session: str, limit: float) -> bool:
    """Interrupt the work of a session on the engine of this folder, and close the session.

    Return whether the work has ended within ``limit`` seconds. If the engine is dead, its work has ended too. Raises
    ``SetupError`` if another user owns the engine.
    """
    deadline = time.monotonic() + limit
    while is_engine_running(folder):
        channel = open_channel(folder, session)
        if channel is not None:
            try:
                SessionWork(channel, session, deadline).end()
                return True
            except TimeoutError:
                return False
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    return False
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


class SessionWork:
    """The running operations of one session, seen by another client."""

    def __init__(self, channel: EngineChannel, session: str, deadline: float) -> None:
        self._channel = channel.toChannel()
        self._stub = SparkConnectServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._identity: dict[str, Any] = {
            "session_id": session,
            "user_context": proto.UserContext(user_id=channel.userId or ""),
        }
        self._deadline = deadline
        self._ended_operations: set[str] = set()

    def end(self) -> None:
        """Interrupt all operations, wait for their end, and close the session."""
        with closing(self._channel):
            try:
                while operations := self.list_running():
                    for operation in operations:
                        self._interrupt(operation)
                self._stub.ReleaseSession(
                    proto.ReleaseSessionRequest(**self._identity), timeout=self._remaining_seconds
                )
            except grpc.RpcError as error:
                if _UNKNOWN_HANDLE not in (error.details() or ""):
                    raise
                time.sleep(_CLOSE_SECONDS)

    @property
    def _remaining_seconds(self) -> float:
        return max(self._deadline - time.monotonic(), 0.1)

    def list_running(self) -> list[str]:
        """Return the ids of operations that run, or were interrupted and may not have ended."""
        request = proto.GetStatusRequest(**self._identity)
        request.operation_status.SetInParent()
        statuses = self._stub.GetStatus(request, timeout=self._remaining_seconds).operation_statuses
        unfinished = [status.operation_id for status in statuses if status.state not in _END_STATES]
        return [operation for operation in unfinished if operation not in self._ended_operations]

    def _interrupt(self, operation: str) -> None:
        request = proto.InterruptRequest(**self._identity, operation_id=operation)
        request.interrupt_type = proto.InterruptRequest.InterruptType.INTERRUPT_TYPE_OPERATION_ID
        self._stub.Interrupt(request, timeout=self._remaining_seconds)
        while not self._has_ended(operation):
            if time.monotonic() > self._deadline:
                raise TimeoutError
            time.sleep(_POLL)
        self._ended_operations.add(operation)

    def _has_ended(self, operation: str) -> bool:
        """Attach to an operation until it completes or fails, or the stream is closed; return whether it has ended."""
        request = proto.ReattachExecuteRequest(**self._identity, operation_id=operation)
        try:
            answers = self._stub.ReattachExecute(request, timeout=self._remaining_seconds)
            return any(answer.HasField("result_complete") for answer in answers)
        except grpc.RpcError as error:
            if not _is_from_spark(error):
                raise
            if _DISCONNECTED in (error.details() or ""):
                return False
            if _UNKNOWN_HANDLE in (error.details() or ""):
                time.sleep(_CLOSE_SECONDS)
            return True


def _is_from_spark(error: grpc.RpcError) -> bool:
    """Whether Spark itself sent this error. A broken or refused connection says nothing about a statement."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # two answers that contradict each other
        return False
    infos = [detail for detail in status.details if detail.Is(ErrorInfo.DESCRIPTOR)] if status else []
    return any(info.value and ErrorInfo.FromString(info.value).domain == "org.apache.spark" for info in infos)
