"""Alerts over HTTP: what a message holds, and its delivery to the URL of the settings, which is a secret."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from threading import get_ident
from typing import Any, Literal

import requests
from urllib3.exceptions import HTTPError

from lakehouse.errors.causes import in_time
from lakehouse.settings import Settings

_LIMIT = 5.0  # seconds for one delivery
_REFUSED_TEXTS = (400, 413, 422)  # the receiver does not accept what the alert says
_CLIENT_LOG = logging.getLogger("urllib3.connectionpool")
_SLACK_CODES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class UndeliveredError(Exception):
    """The receiver did not accept an alert. The message says why, without the URL."""


@dataclass(frozen=True)
class Alert:
    """What is reported about a job or a check of a table.

    ``subject`` is a job, or ``asset:check``. ``detail`` is the error of the run or the description of the check. ``at``
    is a time in UTC: when the failure began, or when it was over. ``run_id`` is ``None`` if no run is behind it.
    """

    state: Literal["failed", "recovered"]
    table: str
    subject: str
    kind: Literal["run", "check"]
    severity: str
    detail: str
    run_id: str | None
    at: str

    def body(self, form: str) -> Mapping[str, Any]:
        """The JSON object to send, in the form ``json`` or ``slack``."""
        return asdict(self) if form == "json" else {"text": self._text().translate(_SLACK_CODES)}

    def _text(self) -> str:
        emoji, preposition = (":red_circle:", "since") if self.state == "failed" else (":large_green_circle:", "at")
        headline = f"{emoji} *{self.table}*: {self.kind} {self.subject} {self.state} {preposition} {self.at}"
        level = f" ({self.severity})" if self.state == "failed" else ""
        run = f"Run {self.run_id}" if self.run_id else ""
        return "\n".join(line for line in (headline + level, self.detail, run) if line)


def send(settings: Settings, alert: Alert) -> None:
    """Send one alert to the URL of the settings, once. ``UndeliveredError`` if the receiver does not accept it.

    No redirect is followed: another host must not get the request. If the receiver refuses the text, the alert is sent
    again without its detail. A receiver that answers too late may have got an alert that counts as undelivered.
    """
    if settings.alert_url is None:
        raise UndeliveredError("LAKEHOUSE_ALERT_URL is not set")
    url, body = settings.alert_url.get_secret_value(), alert.body(settings.alert_format)
    try:
        status = in_time(lambda: _post(url, body), _LIMIT)
    except (requests.exceptions.Timeout, TimeoutError):
        raise UndeliveredError(f"the receiver does not answer within {_LIMIT:.0f} seconds") from None
    except requests.exceptions.SSLError:
        raise UndeliveredError("the certificate of the receiver is not trusted") from None
    except (requests.exceptions.RequestException, HTTPError, OSError, ValueError) as error:
        # the texts of the client contain the URL
        raise UndeliveredError(f"the receiver cannot be reached{_system_message(error)}") from None
    if status in _REFUSED_TEXTS and alert.detail:
        send(settings, replace(alert, detail=""))
    elif not 200 <= status < 300:
        raise UndeliveredError(f"the receiver answers with {status}")


def _post(url: str, body: Mapping[str, Any]) -> int:
    """Post an object as JSON and return the status of the answer."""
    with requests.Session() as session, _without_log():
        session.trust_env = False  # no proxy or password of this machine: only the settings count
        with session.post(url, json=body, timeout=_LIMIT, allow_redirects=False, stream=True) as answer:
            return answer.status_code


@contextmanager
def _without_log() -> Iterator[None]:
    """Drop what the client logs about requests of this thread: it logs their paths."""
    thread = get_ident()

    def is_of_another_thread(_: logging.LogRecord) -> bool:
        return get_ident() != thread

    _CLIENT_LOG.addFilter(is_of_another_thread)
    try:
        yield
    finally:
        _CLIENT_LOG.removeFilter(is_of_another_thread)


def _system_message(error: BaseException) -> str:
    """What the operating system reports, such as a refused connection; empty if the cause is another one."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError) and cause.strerror:
            return f": {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return ""
