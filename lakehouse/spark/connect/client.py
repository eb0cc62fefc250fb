"""A client of a Spark Connect server. Each wait for the server has a limit, and a signal ends it at once."""

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

from lakehouse.errors.causes import SERVER_CAUSES, Cause, causes_of_task, in_time, make_cause

FIRST_ANSWER = 30.0  # seconds for the first answer of a server that accepts connections
_SILENCE = 300.0  # seconds to wait for the answer to a small request before giving up the server
_FAREWELL = 4.0  # seconds for the answer to an interruption, or to the release of a session
_CLOSE_SECONDS = 0.5  # for gRPC to end running requests when a client is closed
_TOUCH = 60.0  # seconds between small requests: the engine closes a session without requests after five minutes


def open_session(channel: ChannelBuilder, retry_policy: RetryPolicy) -> ConnectSession:
    """Create a session with this retry policy; it sends no request yet.

    It does not become the default session, as one of PySpark's builder would: other code could get it, change its
    settings and stop it.
    """
    session = ConnectSession(connection=channel)  # type: ignore[arg-type]
    session.client.set_retry_policies([retry_policy])
    _keep_causes(session.client)
    _limit_farewells(session.client)
    # a client that is open when Python ends sends another command, and then the process hangs (observed)
    atexit.register(session.client.close)
    return session


def _limit_farewells(client: SparkConnectClient) -> None:
    """Limit how long Ctrl-C and the end of a session wait for a silent server."""

    def with_limit(send_request: Callable[..., object]) -> Callable[..., list[str]]:
        def send_in_time(*arguments: object) -> list[str]:
            try:
                in_time(partial(send_request, *arguments), _FAREWELL)
            except TimeoutError:
                Thread(target=client._channel.close, daemon=True).start()
            except Exception:  # noqa: S110 - a client that ends needs no answer
                pass
            return []

        return send_in_time

    release_session = client.release_session

    def release_after_statements() -> None:
        # a request of a statement after the session is closed would write an error and its trace to the server's log
        wait(list(client._release_futures), timeout=_FAREWELL / 2)
        release_session()

    vars(client).update(
        interrupt_operation=with_limit(client.interrupt_operation),
        release_session=with_limit(release_after_statements),
        close=partial(_close, client, client.close),
    )


def _close(client: SparkConnectClient, close: Callable[[], None]) -> None:
    """Close a client; abandon its threads if gRPC waits for a silent server there (observed)."""
    if client.is_closed:
        return
    try:
        in_time(close, _CLOSE_SECONDS)
    except TimeoutError:
        client._closed = True
    except RuntimeError:  # no thread can be started while Python ends
        close()


def _keep_causes(client: SparkConnectClient) -> None:
    """Attach the server's chain of causes to each error: PySpark keeps only the text."""
    fetch_details, raise_error = client._fetch_enriched_error, client._handle_rpc_error
    last_error = local()

    def keep_details(info: ErrorInfo) -> proto.FetchErrorDetailsResponse | None:
        last_error.details = fetch_details(info)
        return cast(proto.FetchErrorDetailsResponse | None, last_error.details)

    def raise_with_causes(rpc_error: grpc.RpcError) -> NoReturn:
        last_error.details = None
        try:
            raise_error(rpc_error)
        except PySparkException as error:
            setattr(error, SERVER_CAUSES, served_causes(last_error.details))
            raise

    vars(client).update(_fetch_enriched_error=keep_details, _handle_rpc_error=raise_with_causes)


def served_causes(details: proto.FetchErrorDetailsResponse | None) -> list[Cause]:
    """Return the chain of causes that the server sent, outermost first; empty if it sent none."""
    causes: list[Cause] = []
    index = details.root_error_idx if details is not None and details.HasField("root_error_idx") else None
    while (
        details is not None and index is not None and index < len(details.errors) and len(causes) <= len(details.errors)
    ):
        error = details.errors[index]
        kind = error.error_type_hierarchy[0] if error.error_type_hierarchy else ""
        causes.append(make_cause(kind, error.spark_throwable.error_class, error.message))
        index = error.cause_idx if error.HasField("cause_idx") else None
        causes += causes_of_task(error.message) if index is None else ()
    return causes


def require_answer(session: ConnectSession, first_request: Callable[[], object]) -> None:
    """Send the first request, which also checks the token, then keep the session alive as long as this process runs.

    Raises ``TimeoutError`` if the server accepts connections but does not answer. The session is closed if this fails.
    """
    try:
        in_time(first_request, FIRST_ANSWER)
    except BaseException:
        session.client.close()
        raise
    Thread(target=_keep_alive, args=(session,), daemon=True).start()


def _keep_alive(session: ConnectSession) -> None:
    """Keep the session alive with small requests; close it if the server is silent for too long.

    A running statement then fails as if the server had ended; otherwise it would wait forever.
    """
    while not session.is_stopped:
        try:
            in_time(lambda: session.conf.get("spark.sql.session.timeZone"), _SILENCE)
        except TimeoutError:
            session.client.close()
        except Exception:  # noqa: S110 - an error is an answer too
            pass
        Event().wait(_TOUCH)
