"""What counts as the end of a statement that another client left on an engine."""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from pyspark.sql.connect import proto

from lakehouse.spark import orphans

pytestmark = pytest.mark.invariant("11.4")

State = proto.GetStatusResponse.OperationStatus.OperationState


class RefusedError(grpc.RpcError):  # type: ignore[misc]
    """A gRPC error; one from Spark itself has details with Spark's domain."""

    def __init__(self, message: str, *, from_spark: bool, code: grpc.StatusCode = grpc.StatusCode.INTERNAL) -> None:
        self._message, self._code = message, code
        packed_info = Packed()
        packed_info.Pack(ErrorInfo(reason="org.apache.spark.SparkException", domain="org.apache.spark"))
        status = Status(code=code.value[0], message=message, details=[packed_info])
        self._trailer = [("grpc-status-details-bin", status.SerializeToString())] if from_spark else []

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._message

    def trailing_metadata(self) -> list[tuple[str, bytes]]:
        return self._trailer


DISCONNECTED = RefusedError("[INVALID_CURSOR.DISCONNECTED] The cursor has been disconnected.", from_spark=True)
CANCELED = RefusedError("[OPERATION_CANCELED] Operation has been canceled.", from_spark=True)
BROKEN = RefusedError("Received RST_STREAM with error code 2", from_spark=False)
UNAUTHENTICATED = RefusedError("no token", from_spark=False, code=grpc.StatusCode.UNAUTHENTICATED)
DONE_RESPONSE = proto.ExecutePlanResponse(result_complete=proto.ExecutePlanResponse.ResultComplete())


class Engine:
    """An engine with one running operation. Each attach gets the next of these answers; the last one repeats."""

    def __init__(self, *answers: Any) -> None:
        self._answers, self.attached, self.released = list(answers), 0, False

    def GetStatus(self, *_: Any, **__: Any) -> Any:  # noqa: N802
        status = SimpleNamespace(operation_id="o", state=State.OPERATION_STATE_RUNNING)
        return SimpleNamespace(operation_statuses=[status])

    def Interrupt(self, *_: Any, **__: Any) -> None:  # noqa: N802
        pass

    def ReleaseSession(self, *_: Any, **__: Any) -> None:  # noqa: N802
        self.released = True

    def ReattachExecute(self, *_: Any, **__: Any) -> Iterator[Any]:  # noqa: N802
        answer = self._answers[min(self.attached, len(self._answers) - 1)]
        self.attached += 1
        if isinstance(answer, Exception):
            raise answer
        yield answer


@pytest.fixture
def end_work(monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], bool]:
    channel = SimpleNamespace(toChannel=lambda: SimpleNamespace(close=lambda: None), userId="u")
    monkeypatch.setattr(orphans, "is_engine_running", lambda _: True)
    monkeypatch.setattr(orphans, "open_channel", lambda *_: channel)

    def run(engine: Engine) -> bool:
        monkeypatch.setattr(orphans, "SparkConnectServiceStub", lambda _: engine)
        start = time.monotonic()
        has_ended = orphans.end_work(SimpleNamespace(), "s", 1.0)  # type: ignore[arg-type]
        assert time.monotonic() - start < 30
        return has_ended

    return run


@pytest.mark.parametrize("answer", [DONE_RESPONSE, CANCELED], ids=["complete", "its error"])
def test_an_answer_of_the_operation_itself_is_its_end(answer: Any, end_work: Callable[[Engine], bool]) -> None:
    engine = Engine(answer)
    assert end_work(engine)
    assert engine.released


def test_a_client_that_is_disconnected_by_another_one_attaches_again_until_the_operation_answers(
    end_work: Callable[[Engine], bool],
) -> None:
    engine = Engine(DISCONNECTED, DISCONNECTED, CANCELED)
    assert end_work(engine)
    assert engine.attached == 3


@pytest.mark.parametrize("answer", [DISCONNECTED, BROKEN, UNAUTHENTICATED], ids=["cursor", "broken", "refused"])
def test_an_error_that_is_not_about_the_operation_is_not_its_end(
    answer: Any, end_work: Callable[[Engine], bool]
) -> None:
    engine = Engine(answer)
    assert not end_work(engine)
    assert not engine.released


def test_a_statement_that_the_engine_abandoned_gets_some_time_to_end(
    end_work: Callable[[Engine], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_CLOSE_SECONDS", 0.5)
    start = time.monotonic()
    assert end_work(Engine(RefusedError("[INVALID_HANDLE.OPERATION_ABANDONED] given up", from_spark=True)))
    assert time.monotonic() - start >= 0.5
