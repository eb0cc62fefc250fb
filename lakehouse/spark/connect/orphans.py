"""What a client that died left running on an engine: interrupted, and waited for.

An interruption is answered before what it interrupts has ended, and so is a question for the state of an operation
(seen). But an operation to which a client attaches again says its last word only when its thread has ended.
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

from lakehouse.spark.connect.channel import EngineChannel, open_channel
from lakehouse.spark.engine import lives

_AFTERWARDS = 10.0  # seconds for the end of what the engine interrupted when it gave a session or an operation up
_GIVEN_UP = "INVALID_HANDLE"  # an operation or a session that the engine no longer knows
_PUT_OUT = "INVALID_CURSOR"  # another client, which lives, has attached to the operation
_POLL = 0.2
_State = proto.GetStatusResponse.OperationStatus.OperationState
_ENDED = (_State.OPERATION_STATE_SUCCEEDED, _State.OPERATION_STATE_FAILED)


def end_work(folder: Path, session: str, limit: float) -> bool:
    """Interrupt what still runs for a session of the engine of this folder; whether it has ended within the limit.

    The session is closed then. Where the engine is dead, so is all that ran on it. ``SetupError`` where the engine is
    somebody else's.
    """
    deadline = time.monotonic() + limit
    while lives(folder):
        channel = open_channel(folder, session)
        if channel is not None:
            try:
                Work(channel, session, deadline).end()
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


class Work:
    """What runs for one session, as another client sees it."""

    def __init__(self, channel: EngineChannel, session: str, deadline: float) -> None:
        self._channel = channel.toChannel()
        self._stub = SparkConnectServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._who: dict[str, Any] = {
            "session_id": session,
            "user_context": proto.UserContext(user_id=channel.userId or ""),
        }
        self._deadline = deadline
        self._ended: set[str] = set()

    def end(self) -> None:
        """Interrupt all that runs, wait for its end, and close the session."""
        with closing(self._channel):
            try:
                while running := self.running():
                    for operation in running:
                        self._interrupt(operation)
                self._stub.ReleaseSession(proto.ReleaseSessionRequest(**self._who), timeout=self._left)
            except grpc.RpcError as error:
                self._require_given_up(error)

    @property
    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.1)

    def running(self) -> list[str]:
        """Operations that run, or were interrupted and may not have ended."""
        request = proto.GetStatusRequest(**self._who)
        request.operation_status.SetInParent()
        told = self._stub.GetStatus(request, timeout=self._left).operation_statuses
        return [one.operation_id for one in told if one.state not in _ENDED and one.operation_id not in self._ended]

    def _interrupt(self, operation: str) -> None:
        request = proto.InterruptRequest(**self._who, operation_id=operation)
        request.interrupt_type = proto.InterruptRequest.InterruptType.INTERRUPT_TYPE_OPERATION_ID
        self._stub.Interrupt(request, timeout=self._left)
        while not self._completed(operation):
            if time.monotonic() > self._deadline:
                raise TimeoutError
            time.sleep(_POLL)
        self._ended.add(operation)

    def _completed(self, operation: str) -> bool:
        """Attach to an operation until it ends, as an error of its own or complete, or the stream is closed."""
        request = proto.ReattachExecuteRequest(**self._who, operation_id=operation)
        try:
            answers = self._stub.ReattachExecute(request, timeout=self._left)
            return any(answer.HasField("result_complete") for answer in answers)
        except grpc.RpcError as error:
            if not _is_of_spark(error):
                raise
            if _PUT_OUT in (error.details() or ""):
                return False
            if _GIVEN_UP in (error.details() or ""):
                time.sleep(_AFTERWARDS)
            return True

    def _require_given_up(self, error: grpc.RpcError) -> None:
        if _GIVEN_UP not in (error.details() or ""):
            raise error
        time.sleep(_AFTERWARDS)


def _is_of_spark(error: grpc.RpcError) -> bool:
    """Whether Spark itself answered so; a connection that breaks, or is refused, says nothing of a statement."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # two answers that contradict each other
        return False
    infos = [detail for detail in status.details if detail.Is(ErrorInfo.DESCRIPTOR)] if status else []
    return any(info.value and ErrorInfo.FromString(info.value).domain == "org.apache.spark" for info in infos)
