"""Sessions on a Spark Connect server. Each wait for the server has a limit, and a signal ends it at once."""

import atexit
import copy
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from functools import partial
from pathlib import Path
from threading import Event, Thread, local
from typing import NoReturn, cast

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import SparkSession
from pyspark.sql.connect import proto
from pyspark.sql.connect.client import ChannelBuilder, DefaultChannelBuilder, SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from lakehouse.errors import SetupError
from lakehouse.errors.causes import SERVER_CAUSES, Cause, causes_of_task, in_time, make_cause
from lakehouse.local.embedded import accepts_connection
from lakehouse.settings import Settings
from lakehouse.settings.addresses import LOOPBACK
from lakehouse.spark.engine import Address, is_engine_running, read_address, read_token

FIRST_ANSWER = 30.0  # seconds for the first answer of a server that accepts connections
_SILENCE = 300.0  # seconds to wait for the answer to a small request before giving up the server
_FAREWELL = 4.0  # seconds for the answer to an interruption, or to the release of a session
_CLOSE_SECONDS = 0.5  # for gRPC to end running requests when a client is closed
_TOUCH = 60.0  # seconds between small requests: the engine closes a session without requests after five minutes
_USER = "lakehouse"  # the same for all clients: the session id alone identifies a session
_LIMIT = 90.0  # seconds to wait for an engine that starts
_POLL = 0.1
_RESTART = "Start lakehouse up again."
_CORRECT_SETTING = "Start the server or correct LAKEHOUSE_SPARK_REMOTE."
_RESTART_SERVER = "Start the server again, or stop the session that this process has on it."
_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


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


class EngineChannel(ChannelBuilder):
    """The connection of a client to an engine. It uses 127.0.0.1, so that no other program receives the token.

    PySpark itself sends a token without TLS only to ``localhost``, which may resolve to another address.
    """

    def __init__(self, address: Address, token: str, session: str | None = None) -> None:
        params = {self.PARAM_USER_ID: _USER} | ({self.PARAM_SESSION_ID: session} if session else {})
        super().__init__(params=params)
        self._port = address.port
        self._credentials = grpc.composite_channel_credentials(
            grpc.local_channel_credentials(), grpc.access_token_call_credentials(token)
        )

    @property
    def host(self) -> str:
        """The address that PySpark shows."""
        return LOOPBACK

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        """Open the connection."""
        return self._secure_channel(f"{LOOPBACK}:{self._port}", self._credentials)


def open_channel(folder: Path, session: str | None = None) -> EngineChannel | None:
    """Return the connection to the engine of this folder; ``None`` if nothing listens there (yet).

    Raises ``SetupError`` if another user owns the engine.
    """
    address = read_address(folder)
    if address is None or not accepts_connection(LOOPBACK, address.port):
        return None
    return EngineChannel(address, read_token(folder), session)


class _RetryWhileEngineLives(DefaultPolicy):
    """Retry for some seconds, but not on a dead engine: PySpark's own policy retries for ten minutes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(max_retries=4, initial_backoff=100, max_backoff=1000)
        self._folder, self._address = folder, read_address(folder)

    def can_retry(self, e: BaseException) -> bool:
        return is_engine_running(self._folder) and read_address(self._folder) == self._address and super().can_retry(e)


def attach(folder: Path, fingerprint: str) -> SparkSession | None:
    """Open a session on the engine of this folder; ``None`` if no engine runs, or it ends meanwhile.

    Raises ``SetupError`` if it was started with other packages, jars or settings than those of the fingerprint, or
    does not answer.
    """
    deadline = time.monotonic() + _LIMIT
    while is_engine_running(folder):
        channel = open_channel(folder)
        if channel is not None:
            _require_fingerprint(folder, fingerprint)
            session = _open(channel, folder)
            if session is not None:
                return session
        if time.monotonic() > deadline:
            raise _timeout_error(folder, _LIMIT)
        time.sleep(_POLL)
    return None


def _require_fingerprint(folder: Path, fingerprint: str) -> None:
    address = read_address(folder)
    if address is not None and address.fingerprint != fingerprint:
        message = "The engine of this home was started with other packages, jars or settings"
        raise SetupError(message, where=str(folder), action=_RESTART)


def _open(channel: EngineChannel, folder: Path) -> SparkSession | None:
    """Open a session; ``None`` if the engine has ended meanwhile, also if another one has started since."""
    address = read_address(folder)
    session = open_session(channel, _RetryWhileEngineLives(folder))
    try:
        require_answer(session, lambda: session.version)
    except TimeoutError:
        raise _timeout_error(folder, FIRST_ANSWER) from None
    except PySparkException as error:
        if read_address(folder) != address:
            return None
        message = "The engine of this home refuses a session"
        raise SetupError(message, where=str(folder / "log"), action=_RESTART) from error
    return cast(SparkSession, session)


def _timeout_error(folder: Path, limit: float) -> SetupError:
    message = f"The engine of this home does not answer within {limit:.0f} seconds"
    return SetupError(message, where=str(folder / "log"), action=_RESTART)


def join(settings: Settings, conf: Mapping[str, str]) -> SparkSession:
    """Open a session with these settings on the server of ``LAKEHOUSE_SPARK_REMOTE``.

    Raises ``SetupError`` if no server answers in time, or it refuses the session. PySpark's message is not shown: it
    may contain parameters, which may be secret.
    """
    remote = settings.remote_address
    if remote is None or not accepts_connection(remote.host.strip("[]"), remote.port):
        raise SetupError("No Spark Connect server answers", where=settings.spark_place, action=_CORRECT_SETTING)
    channel = DefaultChannelBuilder(f"sc://{remote.host}:{remote.port}")
    for name, value in remote.parameters.items():
        channel.set(name, value)
    session = _open_session(channel)

    def set_conf() -> None:
        for name, value in conf.items():
            session.conf.set(name, value)

    return _require_session(session, set_conf, settings.spark_place, _CORRECT_SETTING)


def join_same_server(running_session: SparkSession) -> SparkSession:
    """Open another session on the server of a running one, which may belong to other code and stays unchanged.

    Each call opens a new session. Raises ``SetupError`` if the server does not answer in time, or refuses the session.
    """
    channel = copy.copy(running_session.client._builder)
    channel._params = {name: value for name, value in channel._params.items() if name != channel.PARAM_SESSION_ID}
    session = _open_session(channel)
    return _require_session(
        session, lambda: session.conf.getAll, f"Spark Connect at {running_session.client.host}", _RESTART_SERVER
    )


def _open_session(channel: ChannelBuilder) -> ConnectSession:
    return open_session(channel, DefaultPolicy(max_retries=7, initial_backoff=100, max_backoff=10_000))


def _require_session(
    session: ConnectSession, first_request: Callable[[], object], place: str, advice: str
) -> SparkSession:
    """Return the session once its server has answered the first request."""
    try:
        require_answer(session, first_request)
    except TimeoutError:
        message = f"The server does not answer as a Spark Connect server within {FIRST_ANSWER:.0f} seconds"
        action = f"Check whether it is busy, and whether it needs TLS (use_ssl=true). {advice}"
        raise SetupError(message, where=place, action=action) from None
    except PySparkException as error:
        raise _setup_error(place, error, advice) from None
    return cast(SparkSession, session)


def _setup_error(place: str, error: PySparkException, advice: str) -> SetupError:
    code = error.getGrpcStatusCode() if isinstance(error, SparkConnectGrpcException) else grpc.StatusCode.UNKNOWN
    if code in _REFUSALS:
        action = "Correct the token in LAKEHOUSE_SPARK_REMOTE." if advice == _CORRECT_SETTING else advice
        return SetupError("The Spark Connect server refuses access", where=place, action=action)
    message = f"The server does not open a Spark Connect session: {error.getCondition() or code.name}"
    return SetupError(message, where=place, action=f"Check its log. {advice}")
