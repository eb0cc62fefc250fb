"""One request to the broker: within a time limit, without log output, and with errors that name the cause.

Clients report little more than that they could not connect. Some causes follow from the class of the logged errors, or
of the errors in Spark's trace, together with what TLS reports about a certificate. For the others, the broker is asked
once more over a plain socket. Names, such as those of topics, never decide the cause.
"""

import asyncio
import logging
import re
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from aiokafka.errors import (
    BrokerNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    KafkaUnavailableError,
    NodeNotReadyError,
    NotControllerError,
    ReplicaNotAvailableError,
    UnknownError,
)

from lakehouse.errors import BrokerError, BrokerRefusedError
from lakehouse.errors.causes import Cause as ErrorCause
from lakehouse.errors.causes import mask_text
from lakehouse.kafka.clients import Clients, ssl_context, uses_sasl, uses_tls
from lakehouse.local.embedded import API_VERSIONS, SASL_HANDSHAKE, send_request
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers

Answer = TypeVar("Answer")

_PROBE_SECONDS = 1.0
"""Time limit of a probe for the cause of a failure, if the request has no limit."""
_FAILOVER_ERRORS = (NodeNotReadyError, NotControllerError, KafkaTimeoutError)
"""Errors of a client while a cluster replaces a dead node."""
_TEMPORARY_ERRORS = (BrokerNotAvailableError, KafkaUnavailableError, ReplicaNotAvailableError, UnknownError)
"""Temporary errors that aiokafka does not mark as retriable."""
_PAUSE = 0.1
_CONNECTING = re.compile(r'^Unable connect to "[^"]*": ?')
_log = logging.getLogger(__name__)
_client_messages: ContextVar[list[tuple[str, BaseException | None]] | None] = ContextVar(
    "client_messages", default=None
)


class Cause(NamedTuple):
    """One sentence about what happened, and what to check."""

    fact: str
    action: str


_TOO_OLD = Cause("The broker is older than Kafka 3.1", "Use a newer broker, or correct its address.")


_ILLEGAL_SASL_STATE = 34
_PROTOCOL = "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL"
_USER = Cause(
    "The broker refuses the user name or the password",
    "Check LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD. The user must exist for the mechanism in "
    "LAKEHOUSE_KAFKA_SASL_MECHANISM.",
)
_MECHANISM = Cause(
    "The broker does not support this SASL mechanism",
    "Set LAKEHOUSE_KAFKA_SASL_MECHANISM to a mechanism that it supports.",
)
_OTHER_HOST = Cause(
    "The broker's certificate is for another host",
    "Set LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS to the host name in its certificate.",
)
_EXPIRED = Cause("The broker's certificate has expired or is not yet valid", "Renew the certificate; no setting helps.")
_UNTRUSTED = Cause(
    "The broker's certificate is signed by an authority that is not trusted",
    "Set LAKEHOUSE_KAFKA_CA_FILE to the PEM file of that authority.",
)
_FILES = "LAKEHOUSE_KAFKA_CLIENT_CERTIFICATE_FILE and LAKEHOUSE_KAFKA_CLIENT_KEY_FILE"
_WANTS_CERTIFICATE = Cause("The broker requires a client certificate, and none is set", f"Set {_FILES}.")
_REFUSES_CERTIFICATE = Cause(
    "The broker refuses the client certificate",
    f"Check {_FILES}: the broker must trust the authority that signed it.",
)
_NO_SASL = Cause(
    "This port of the broker does not accept a user name and password",
    f"Check {_PROTOCOL} (SSL or PLAINTEXT), or the port in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS.",
)
_WANTS_SASL = Cause(
    "The broker requires a user name and a password",
    f"Set {_PROTOCOL} to a protocol with SASL, LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD.",
)
_WANTS_TLS = Cause(
    "This port of the broker requires TLS, and the client does not use it",
    f"Set {_PROTOCOL} to SSL or SASL_SSL, or correct the port in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS.",
)
_NO_TLS = Cause(
    "This port of the broker does not support TLS, and the client uses it",
    f"Set {_PROTOCOL} to PLAINTEXT or SASL_PLAINTEXT, or correct the port in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS.",
)
_TLS = r"^(ssl\.SSL|javax\.net\.ssl\.|java\.security\.cert\.|sun\.security\.)|\.SslAuthenticationException$"
_CAUSES_OF_ERRORS = (
    (r"\.SaslAuthentication(Failed|Exception)$", "", _USER),
    (r"\.UnsupportedSaslMechanism(Error|Exception)$", "", _MECHANISM),
    (r"\.IllegalSaslState(Error|Exception)$", "", _NO_SASL),
    (_TLS, "(Hostname|IP address) mismatch|No (subject alternative|name matching)", _OTHER_HOST),
    (_TLS, "certificate has expired|certificate is not yet valid", _EXPIRED),
    (r"\.Certificate(Expired|NotYetValid)Exception$", "", _EXPIRED),
    (r"\.SSLCertVerificationError$", "", _UNTRUSTED),
    (_TLS, "PKIX path|unable to find valid certification path", _UNTRUSTED),
    (_TLS, "(?i)certificate_required", _WANTS_CERTIFICATE),
    (
        _TLS,
        "(?i)alert.*(bad_certificate|certificate_unknown|unknown_ca|certificate_(expired|revoked))",
        _REFUSES_CERTIFICATE,
    ),
)
"""Causes by the class of an error; for an error of TLS, also by its message."""


def match_cause(causes: Iterable[ErrorCause]) -> Cause | None:
    """Return the cause that the errors of a client name, ``None`` if they name none."""
    errors = [(error.kind, mask_text(error.line)) for error in causes]
    matching_causes = (
        cause
        for class_pattern, message_pattern, cause in _CAUSES_OF_ERRORS
        if any(re.search(class_pattern, name) and re.search(message_pattern, line) for name, line in errors)
    )
    return next(matching_causes, None)


def chain_errors(errors: Iterable[BaseException]) -> Iterator[ErrorCause]:
    """Yield Python errors with the errors they were raised from; errors of TLS have a message of their own."""
    for raised_error in errors:
        error: BaseException | None = raised_error
        while error is not None:
            message = str(error)
            if isinstance(error, ssl.SSLError):
                message = getattr(error, "verify_message", None) or error.reason or message
            yield ErrorCause(f"{type(error).__module__}.{type(error).__name__}", "", message)
            error = error.__cause__ or error.__context__


def find_cause(settings: Settings, errors: Sequence[BaseException], limit: float) -> Cause | None:
    """Return why the connection to the broker fails, ``None`` if the cause stays unknown.

    If the logged ``errors`` do not name the cause, probes the first server over plain sockets, each for at most
    ``limit`` seconds.
    """
    cause = match_cause(chain_errors(errors)) or _probe(settings, limit)
    if cause is _REFUSES_CERTIFICATE and not settings.kafka_client_certificate_file:
        return _WANTS_CERTIFICATE  # older versions of TLS have one alert for both
    return cause


def _probe(settings: Settings, limit: float) -> Cause | None:
    server = urlsplit(f"//{bootstrap_servers(settings).split(',')[0]}")
    address = (server.hostname or "", server.port or 0)
    tls = ssl_context(settings) if uses_tls(settings) else None
    try:
        with _connect(address, limit, tls) as connection:
            return _compare_sasl(connection, settings)
    except ssl.SSLError as error:
        return match_cause(chain_errors([error])) or _cause_if(_NO_TLS, lambda: _answers_in_plaintext(address, limit))
    except TimeoutError:
        return None
    except OSError:
        if tls:
            return _cause_if(_NO_TLS, lambda: _answers_in_plaintext(address, limit))
        return _cause_if(_WANTS_TLS, lambda: _accepts_tls(address, limit))


def _cause_if(cause: Cause, applies: Callable[[], bool]) -> Cause | None:
    try:
        return cause if applies() else None
    except OSError:
        return None


def _compare_sasl(connection: socket.socket, settings: Settings) -> Cause | None:
    """Request a SASL handshake: the answer of the broker shows whether it requires SASL."""
    send_request(connection, API_VERSIONS)
    answer = send_request(connection, SASL_HANDSHAKE, struct.pack(">h", 0))
    requires_sasl = struct.unpack(">h", answer[:2])[0] != _ILLEGAL_SASL_STATE
    if requires_sasl == uses_sasl(settings):
        return None
    return _WANTS_SASL if requires_sasl else _NO_SASL


def _answers_in_plaintext(address: tuple[str, int], limit: float) -> bool:
    with _connect(address, limit, None) as connection:
        return bool(send_request(connection, API_VERSIONS))


def _accepts_tls(address: tuple[str, int], limit: float) -> bool:
    any_server = ssl.create_default_context()
    any_server.check_hostname, any_server.verify_mode = False, ssl.CERT_NONE
    with _connect(address, limit, any_server):
        return True


def _connect(address: tuple[str, int], limit: float, tls: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection(address, timeout=limit)
    try:
        return tls.wrap_socket(connection, server_hostname=address[0]) if tls else connection
    except BaseException:
        connection.close()
        raise


def ask(settings: Settings, limit: float | None, question: Callable[[Clients], Awaitable[Answer]]) -> Answer:
    """Run a request, which opens the clients it needs, for at most ``limit`` seconds.

    Raises ``BrokerError`` if the broker is down or does not answer in time, and ``BrokerRefusedError`` if it refuses
    the request. Raises ``SettingsError`` if the settings cannot be used.
    """
    clients = Clients(settings, limit)
    _capture_client_log()
    messages: list[tuple[str, BaseException | None]] = []
    token = _client_messages.set(messages)
    deadline = None if limit is None else time.monotonic() + limit
    try:
        return asyncio.run(_run_within(limit, question, clients))
    except TimeoutError:
        raise _broker_error(settings, "The broker does not answer") from None
    except _FAILOVER_ERRORS as error:
        raise _broker_error(settings, f"The broker does not answer: {error}") from None
    except KafkaConnectionError as error:
        raise _unreachable_error(settings, messages or [(str(error.args[0]), error)], deadline) from None
    except KafkaError as error:
        raise _answer_error(settings, error) from None
    except NotImplementedError:
        raise _refusal(settings, _TOO_OLD) from None
    finally:
        _client_messages.reset(token)


def _unreachable_error(
    settings: Settings, messages: list[tuple[str, BaseException | None]], deadline: float | None
) -> BrokerError:
    """Return an error with its cause, if the remaining time is enough to find the cause."""
    seconds = _PROBE_SECONDS if deadline is None else min(_PROBE_SECONDS, (deadline - time.monotonic()) / 2)
    cause = find_cause(settings, [error for _, error in messages if error], max(seconds, 0.1))
    if cause is None:
        message = _CONNECTING.sub("", messages[-1][0]) or "no answer"
        return _broker_error(settings, f"The broker cannot be reached: {message}")
    return _refusal(settings, cause)


def _answer_error(settings: Settings, error: KafkaError) -> BrokerError:
    """Classify the error of a broker that answers as temporary or as a wrong configuration."""
    if error.retriable or isinstance(error, _TEMPORARY_ERRORS):
        return _broker_error(settings, f"The broker cannot answer now: {error}")
    if "Authorization" in type(error).__name__:
        action = "Grant the right to this user, or use another user that has it (LAKEHOUSE_KAFKA_USERNAME)."
    else:
        action = "Check the LAKEHOUSE_KAFKA_ settings and the permissions on the broker."
    return _refusal(settings, Cause(f"The broker refuses the request: {error}", action))


def _refusal(settings: Settings, cause: Cause) -> BrokerRefusedError:
    return BrokerRefusedError(cause.fact, where=bootstrap_servers(settings), action=cause.action)


def _broker_error(settings: Settings, fact: str) -> BrokerError:
    if not settings.kafka_bootstrap_servers:
        action = "Start it with: lakehouse up broker"
    elif settings.kafka_security_protocol == "PLAINTEXT":
        action = "Check that it runs, and that LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS has its address."
    else:
        action = "Check the LAKEHOUSE_KAFKA_ settings: servers, protocol, mechanism, name, password, CA file."
    return BrokerError(fact, where=bootstrap_servers(settings), action=action)


async def _run_within(
    limit: float | None, question: Callable[[Clients], Awaitable[Answer]], clients: Clients
) -> Answer:
    """Run a request; with a time limit, repeat it while a node or the leader of a partition is being replaced."""
    async with asyncio.timeout(limit):
        while True:
            try:
                return await question(clients)
            except _FAILOVER_ERRORS:
                if limit is None:
                    raise
                await asyncio.sleep(_PAUSE)


class _ClientLogHandler(logging.Handler):
    """Keeps the messages and errors that aiokafka logs during a request: it reports its reasons nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        messages = _client_messages.get()
        if messages is not None and record.levelno >= logging.WARNING:
            log_arguments = record.args if isinstance(record.args, tuple) else ()
            error = next((argument for argument in log_arguments if isinstance(argument, BaseException)), None)
            messages.append((record.getMessage(), error))
        _log.debug("%s", record.getMessage())


def _capture_client_log() -> None:
    logger = logging.getLogger("aiokafka")
    if not any(isinstance(handler, _ClientLogHandler) for handler in logger.handlers):
        logger.addHandler(_ClientLogHandler())
        logger.propagate = False
