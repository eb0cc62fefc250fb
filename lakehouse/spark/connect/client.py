"""A client of a Spark Connect server that may be silent: each wait for it has an end, and a signal ends it at once."""

import atexit
from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from threading import Event, Thread, local
from typing import NoReturn, cast

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from pyspark.errors import PySparkException
from pyspark.sql.connect import proto
from pyspark.sql.connect.client import ChannelBuilder, SparkConnectClient
from pyspark.sql.connect.client.retries import RetryPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from lakehouse.errors.causes import SERVED, Cause, causes_of_task, make_cause
from lakehouse.errors.time_limit import in_time

FIRST_ANSWER = 30.0  # seconds for the first answer of a server that takes connections
_SILENCE = 300.0  # seconds without an answer to a small question, after which a server is given up
_FAREWELL = 4.0  # seconds for an answer to who ends: an interruption, a session that is given back
_CLOSING = 0.5  # seconds for gRPC to end what is under way when a client is closed
_TOUCH = 60.0  # seconds between two of them: the engine gives up a session that has asked none for five minutes


def open_session(channel: ChannelBuilder, patience: RetryPolicy) -> ConnectSession:
    """Open a session that asks again as ``patience`` says; nothing is asked yet.

    It is nobody's default, as one of PySpark's builder would be: others would get it, set its settings and stop it.
    """
    session = ConnectSession(connection=channel)  # type: ignore[arg-type]
    session.client.set_retry_policies([patience])
    _keep_causes(session.client)
    _bound_farewells(session.client)
    # a client that is open when Python ends sends one command more, and then the process hangs (seen)
    atexit.register(session.client.close)
    return session


def _bound_farewells(client: SparkConnectClient) -> None:
    """Have Ctrl-C and the end of a session wait for a silent server no longer than for one that answers slowly."""

    def bound(ask: Callable[..., object]) -> Callable[..., list[str]]:
        def asked(*given: object) -> list[str]:
            try:
                in_time(partial(ask, *given), _FAREWELL)
            except TimeoutError:
                Thread(target=client._channel.close, daemon=True).start()
            except Exception:  # noqa: S110 - who ends needs no answer
                pass
            return []

        return asked

    release = client.release_session

    def give_back() -> None:
        # what a statement still tells a session that is closed is an error, with its trace, in the server's log
        wait(list(client._release_futures), timeout=_FAREWELL / 2)
        release()

    vars(client).update(
        interrupt_operation=bound(client.interrupt_operation),
        release_session=bound(give_back),
        close=partial(_close, client, client.close),
    )


def _close(client: SparkConnectClient, close: Callable[[], None]) -> None:
    """Close a client, and leave its threads behind if gRPC waits for a silent server there (seen)."""
    if client.is_closed:
        return
    try:
        in_time(close, _CLOSING)
    except TimeoutError:
        client._closed = True
    except RuntimeError:  # where Python ends, no thread can be started any more
        close()


def _keep_causes(client: SparkConnectClient) -> None:
    """Give each error the chain that the server told of it: PySpark keeps no more than its text."""
    fetch, raise_error = client._fetch_enriched_error, client._handle_rpc_error
    told = local()

    def keep(info: ErrorInfo) -> proto.FetchErrorDetailsResponse | None:
        told.chain = fetch(info)
        return cast(proto.FetchErrorDetailsResponse | None, told.chain)

    def explain(rpc_error: grpc.RpcError) -> NoReturn:
        told.chain = None
        try:
            raise_error(rpc_error)
        except PySparkException as error:
            setattr(error, SERVED, served_causes(told.chain))
            raise

    vars(client).update(_fetch_enriched_error=keep, _handle_rpc_error=explain)


def served_causes(told: proto.FetchErrorDetailsResponse | None) -> list[Cause]:
    """The chain of an error as a server tells it, outermost first; empty where it told none."""
    causes: list[Cause] = []
    at = told.root_error_idx if told is not None and told.HasField("root_error_idx") else None
    while told is not None and at is not None and at < len(told.errors) and len(causes) <= len(told.errors):
        error = told.errors[at]
        kind = error.error_type_hierarchy[0] if error.error_type_hierarchy else ""
        causes.append(make_cause(kind, error.spark_throwable.error_class, error.message))
        at = error.cause_idx if error.HasField("cause_idx") else None
        causes += causes_of_task(error.message) if at is None else ()
    return causes


def require_answer(session: ConnectSession, question: Callable[[], object]) -> None:
    """Ask the first question, which also proves the token, then keep the session as long as its process lives.

    A server that hangs takes connections and is silent: ``TimeoutError`` then. The session is closed where this fails.
    """
    try:
        in_time(question, FIRST_ANSWER)
    except BaseException:
        session.client.close()
        raise
    Thread(target=_stay, args=(session,), daemon=True).start()


def _stay(session: ConnectSession) -> None:
    """Keep the session while its process waits for a turn, or a person; a server that is silent too long is given up.

    Its statement then fails as on a server that has ended: it would wait without end.
    """
    while not session.is_stopped:
        try:
            in_time(lambda: session.conf.get("spark.sql.session.timeZone"), _SILENCE)
        except TimeoutError:
            session.client.close()
        except Exception:  # noqa: S110 - that is an answer too
            pass
        Event().wait(_TOUCH)
