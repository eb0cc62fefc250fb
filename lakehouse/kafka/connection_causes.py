"""Why a broker cannot be spoken to: the cause, and the settings to look at.

Clients say little more than that they could not connect. The class of what they log, or of what Spark's trace holds,
names some of the causes, with what TLS says of a certificate; for the others the broker is asked once more, over a
plain socket. Names, as those of topics, decide nothing.
"""

import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from lakehouse.errors.causes import Cause as ErrorCause
from lakehouse.errors.causes import masked
from lakehouse.kafka.security import encrypted, ssl_context
from lakehouse.local.wire import API_VERSIONS, SASL_HANDSHAKE, ask
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers


class Cause(NamedTuple):
    """One sentence of fact, and what to check."""

    fact: str
    action: str


_ILLEGAL_SASL_STATE = 34
_PROTOCOL = "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL"
_USER = Cause(
    "The broker refuses the user name or the password",
    "Check LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD, and that the user is known for the mechanism in "
    "LAKEHOUSE_KAFKA_SASL_MECHANISM.",
)
_MECHANISM = Cause(
    "The broker does not take this SASL mechanism",
    "Set LAKEHOUSE_KAFKA_SASL_MECHANISM to one that it has.",
)
_OTHER_HOST = Cause(
    "The broker's certificate is for another host",
    "Name the broker in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS as its certificate does.",
)
_EXPIRED = Cause("The broker's certificate is out of date", "It has to be renewed; no setting helps.")
_UNTRUSTED = Cause(
    "The broker's certificate is signed by an authority that is not trusted",
    "Name the PEM file of that authority in LAKEHOUSE_KAFKA_CA_FILE.",
)
_FILES = "LAKEHOUSE_KAFKA_CLIENT_CERTIFICATE_FILE and LAKEHOUSE_KAFKA_CLIENT_KEY_FILE"
_WANTS_CERTIFICATE = Cause("The broker asks for a client certificate, and none is set", f"Set {_FILES}.")
_REFUSES_CERTIFICATE = Cause(
    "The broker refuses the client certificate",
    f"Check {_FILES}: the broker has to trust the authority that signed it.",
)
_NO_SASL = Cause(
    "This port of the broker takes no user name and password",
    f"Check {_PROTOCOL} (SSL or PLAINTEXT), or the port in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS.",
)
_WANTS_SASL = Cause(
    "The broker asks for a user name and a password",
    f"Set {_PROTOCOL} to a protocol with SASL, LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD.",
)
_WANTS_TLS = Cause(
    "This port of the broker speaks TLS, and we do not",
    f"Set {_PROTOCOL} to SSL or SASL_SSL, or correct the port in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS.",
)
_NO_TLS = Cause(
    "This port of the broker does not speak TLS, and we do",
    f"Set {_PROTOCOL} to PLAINTEXT or SASL_PLAINTEXT, or correct the port in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS.",
)
_TLS = r"^(ssl\.SSL|javax\.net\.ssl\.|java\.security\.cert\.|sun\.security\.)|\.SslAuthenticationException$"
_TOLD = (
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
"""By the class of an error, and where that is one of TLS by its words."""


def told_cause(causes: Iterable[ErrorCause]) -> Cause | None:
    """Return the cause that an error of a client names, ``None`` where it names none."""
    said = [(each.kind, masked(each.line)) for each in causes]
    fitting = (
        cause
        for kind, words, cause in _TOLD
        if any(re.search(kind, name) and re.search(words, line) for name, line in said)
    )
    return next(fitting, None)


def chain_of(errors: Iterable[BaseException]) -> Iterator[ErrorCause]:
    """Errors of Python with what they were raised from; what TLS names has a name of its own there."""
    for error in errors:
        each: BaseException | None = error
        while each is not None:
            said = str(each)
            if isinstance(each, ssl.SSLError):
                said = getattr(each, "verify_message", None) or each.reason or said
            yield ErrorCause(f"{type(each).__module__}.{type(each).__name__}", "", said)
            each = each.__cause__ or each.__context__


def find_cause(settings: Settings, heard: Sequence[BaseException], limit: float) -> Cause | None:
    """Return why the broker cannot be spoken to, ``None`` where that stays unknown.

    Asks the first of the servers over sockets of its own where what was ``heard`` does not tell, each for at most
    ``limit`` seconds.
    """
    cause = told_cause(chain_of(heard)) or _asked(settings, limit)
    if cause is _REFUSES_CERTIFICATE and not settings.kafka_client_certificate_file:
        return _WANTS_CERTIFICATE  # older TLS has one alert for both
    return cause


def _asked(settings: Settings, limit: float) -> Cause | None:
    server = urlsplit(f"//{bootstrap_servers(settings).split(',')[0]}")
    address = (server.hostname or "", server.port or 0)
    tls = ssl_context(settings) if encrypted(settings) else None
    try:
        with _connected(address, limit, tls) as connection:
            return _said_to(connection, settings)
    except ssl.SSLError as error:
        return told_cause(chain_of([error])) or _if(_NO_TLS, lambda: _greets(address, limit))
    except TimeoutError:
        return None
    except OSError:
        if tls:
            return _if(_NO_TLS, lambda: _greets(address, limit))
        return _if(_WANTS_TLS, lambda: _shakes_hands(address, limit))


def _if(cause: Cause, holds: Callable[[], bool]) -> Cause | None:
    try:
        return cause if holds() else None
    except OSError:
        return None


def _said_to(connection: socket.socket, settings: Settings) -> Cause | None:
    """Greet, and ask for SASL: what the broker answers tells whether it wants it."""
    ask(connection, API_VERSIONS)
    answer = ask(connection, SASL_HANDSHAKE, struct.pack(">h", 0))
    wants_sasl = struct.unpack(">h", answer[:2])[0] != _ILLEGAL_SASL_STATE
    has_sasl = settings.kafka_security_protocol.startswith("SASL")
    if wants_sasl == has_sasl:
        return None
    return _WANTS_SASL if wants_sasl else _NO_SASL


def _greets(address: tuple[str, int], limit: float) -> bool:
    with _connected(address, limit, None) as connection:
        return bool(ask(connection, API_VERSIONS))


def _shakes_hands(address: tuple[str, int], limit: float) -> bool:
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with _connected(address, limit, anybody):
        return True


def _connected(address: tuple[str, int], limit: float, tls: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(address, timeout=limit)
    try:
        return tls.wrap_socket(plain, server_hostname=address[0]) if tls else plain
    except BaseException:
        plain.close()
        raise
