"""What is taken for the end of a statement that another client left on an engine."""

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

from lakehouse.spark.connect import orphans

pytestmark = pytest.mark.invariant(11)

State = proto.GetStatusResponse.OperationStatus.OperationState


class Refused(grpc.RpcError):  # type: ignore[misc]
    """An error as gRPC gives it; what Spark itself says has a name in its details."""

    def __init__(self, said: str, *, of_spark: bool, code: grpc.StatusCode = grpc.StatusCode.INTERNAL) -> None:
        self._said, self._code = said, code
        packed = Packed()
        packed.Pack(ErrorInfo(reason="org.apache.spark.SparkException", domain="org.apache.spark"))
        status = Status(code=code.value[0], message=said, details=[packed])
        self._trailer = [("grpc-status-details-bin", status.SerializeToString())] if of_spark else []

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._said

    def trailing_metadata(self) -> list[tuple[str, bytes]]:
        return self._trailer


DISCONNECTED = Refused("[INVALID_CURSOR.DISCONNECTED] The cursor has been disconnected.", of_spark=True)
CANCELED = Refused("[OPERATION_CANCELED] Operation has been canceled.", of_spark=True)
BROKEN = Refused("Received RST_STREAM with error code 2", of_spark=False)
NOT_ASKED = Refused("no token", of_spark=False, code=grpc.StatusCode.UNAUTHENTICATED)
DONE = proto.ExecutePlanResponse(result_complete=proto.ExecutePlanResponse.ResultComplete())


class Engine:
    """An engine on which one operation runs; who attaches to it gets the next of these answers, the last for ever."""

    def __init__(self, *answers: Any) -> None:
        self._answers, self.attached, self.released = list(answers), 0, False

    def GetStatus(self, *_: Any, **__: Any) -> Any:  # noqa: N802
        one = SimpleNamespace(operation_id="o", state=State.OPERATION_STATE_RUNNING)
        return SimpleNamespace(operation_statuses=[one])

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
def end(monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], bool]:
    channel = SimpleNamespace(toChannel=lambda: SimpleNamespace(close=lambda: None), userId="u")
    monkeypatch.setattr(orphans, "lives", lambda _: True)
    monkeypatch.setattr(orphans, "open_channel", lambda *_: channel)

    def ended(engine: Engine) -> bool:
        monkeypatch.setattr(orphans, "SparkConnectServiceStub", lambda _: engine)
        before = time.monotonic()
        told = orphans.end_work(SimpleNamespace(), "s", 1.0)  # type: ignore[arg-type]
        assert time.monotonic() - before < 30
        return told

    return ended


@pytest.mark.parametrize("answer", [DONE, CANCELED], ids=["complete", "its error"])
def test_what_the_operation_itself_answers_is_its_end(answer: Any, end: Callable[[Engine], bool]) -> None:
    engine = Engine(answer)
    assert end(engine)
    assert engine.released


def test_who_is_put_out_by_the_other_client_attaches_again_until_the_operation_answers(
    end: Callable[[Engine], bool],
) -> None:
    engine = Engine(DISCONNECTED, DISCONNECTED, CANCELED)
    assert end(engine)
    assert engine.attached == 3


@pytest.mark.parametrize("answer", [DISCONNECTED, BROKEN, NOT_ASKED], ids=["cursor", "broken", "refused"])
def test_what_says_nothing_of_the_operation_is_not_its_end(answer: Any, end: Callable[[Engine], bool]) -> None:
    engine = Engine(answer)
    assert not end(engine)
    assert not engine.released


def test_a_statement_that_the_engine_itself_gave_up_is_left_some_time_to_end(
    end: Callable[[Engine], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_AFTERWARDS", 0.5)
    began = time.monotonic()
    assert end(Engine(Refused("[INVALID_HANDLE.OPERATION_ABANDONED] given up", of_spark=True)))
    assert time.monotonic() - began >= 0.5
