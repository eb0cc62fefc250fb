"""The engine of a home: one Spark Connect server on loopback, to which whatever works in the home attaches.

``HOME/engine`` holds ``lock``, which the server has for itself alone and each Spark of a command's own shares, so that
there is never one of each; ``launch``, what it is started with; ``address``, once it answers; ``token``, which only its
owner can read; ``ui``, what is said of its page; and the log.
"""

import fcntl
import json
import os
import secrets
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakehouse.errors import SetupError
from lakehouse.local.java import find_java
from lakehouse.local.ports import draw_port
from lakehouse.local.process import Child
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import LOOPBACK
from lakehouse.settings.spark_conf import HIDDEN_TEXT, TEXT_REDACTION, hidden_text

ENGINE = "spark.lakehouse.engine"  # the setting by which a session tells over which engine it runs: its folder
_STORED = ("port", "pid", "fingerprint", "start")  # what the file says of an address
_SERVER = "lakehouse.spark.engine_main"
_UI = {
    "spark.ui.enabled": "true",
    "spark.ui.killEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
    "spark.ui.threadDumpsEnabled": "false",
}
_PATIENCE = 30.0  # seconds for commands of the home to end that use a Spark of their own
_POLL = 0.1


class TakenError(SetupError):
    """The home has a Spark already, of a command or an engine: another engine can be started when that has ended."""


@dataclass(frozen=True)
class Address:
    """Where the engine listens on loopback, its Java, what it was started with, and a name of this one start.

    ``ui`` is the page on which Spark shows its work, or why there is none; empty where none is wanted.
    """

    port: int
    pid: int
    fingerprint: str
    start: str
    ui: str = field(default="", compare=False)

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{LOOPBACK}:{self.port}{f', Spark UI {self.ui}' if self.ui else ''}"


def engine_folder(settings: Settings) -> Path:
    """The folder of the home's engine; it may not exist yet."""
    return settings.home_folder / "engine"


def lives(folder: Path) -> bool:
    """Whether an engine of this folder lives: it holds the lock for itself, and frees it only by its end.

    ``SetupError`` where it is somebody else's.
    """
    try:
        lock = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(folder, error) from None
    try:
        return not _locked(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def share_lock(settings: Settings) -> int | None:
    """Keep an engine of the home from starting, as long as the descriptor is open; ``None`` where one lives.

    ``SetupError`` where the disk refuses the lock.
    """
    lock = _opened(settings)
    if _locked(lock, fcntl.LOCK_SH):
        return lock
    os.close(lock)
    return None


def read_address(folder: Path) -> Address | None:
    """Where the engine that started last listens; ``None`` where none has, or it does not answer yet.

    What another version has added to the file is left aside.
    """
    try:
        found = json.loads((folder / "address").read_text())
        address = Address(**{name: found[name] for name in _STORED})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    with suppress(OSError):
        return replace(address, ui=(folder / "ui").read_text())
    return address


def read_token(folder: Path) -> str:
    """What the engine asks its clients for; ``SetupError`` where it is somebody else's engine."""
    try:
        return (folder / "token").read_text()
    except OSError as error:
        raise _unusable(folder, error) from None


class EngineProcess:
    """The engine as a child process; it belongs to who starts it and dies with it."""

    def __init__(self, settings: Settings, conf: Mapping[str, str], fingerprint: str) -> None:
        self._settings = settings
        self._conf = conf
        self._fingerprint = fingerprint
        self._folder = engine_folder(settings)
        self._child: Child | None = None

    @property
    def log(self) -> Path:
        """The file that holds what the engine says."""
        return self._folder / "log"

    @property
    def exit_code(self) -> int | None:
        """How the engine ended; ``None`` while it runs, or where this object has none."""
        return self._child.exit_code if self._child else None

    def start(self, patience: float = _PATIENCE) -> None:
        """Start the engine. It is not ready yet: whoever attaches waits until it answers.

        What is left of one that ended goes first. Raises ``SetupError`` without a fitting Java, ``TakenError`` where
        another engine of the home runs, or commands of it use a Spark of their own, for longer than ``patience``
        seconds.
        """
        self.stop()
        lock = self._claim(patience)
        try:
            find_java()
            self._launch(lock)
        finally:
            os.close(lock)  # the engine has it now

    def stop(self) -> None:
        """Stop the engine, within 10 seconds. A second call does nothing."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _claim(self, patience: float) -> int:
        lock, deadline = _opened(self._settings), time.monotonic() + patience
        while not _locked(lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(lock)
                raise self._taken()
            time.sleep(_POLL)
        return lock

    def _taken(self) -> TakenError:
        own = "A command of this home is using a Spark of its own"
        fact = "Another engine of this home runs" if lives(self._folder) else own
        return TakenError(fact, where=str(self._folder), action="Wait until it has ended, then start the engine again.")

    def _launch(self, lock: int) -> None:
        port, token = draw_port(), secrets.token_urlsafe(32)
        for name in ("address", "ui", "log"):
            (self._folder / name).unlink(missing_ok=True)
        _write(self._folder / "token", token)
        said = {"conf": {**self._conf, **self._own(port)}, "port": port, "fingerprint": self._fingerprint}
        _write(self._folder / "launch", json.dumps(said))
        environment = {
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
            "PYSPARK_PYTHON": sys.executable,
        }
        if self._settings.spark_is_local:  # executors elsewhere have to reach the driver
            environment["SPARK_LOCAL_IP"] = LOOPBACK
        self._child = Child([*_command(), str(self._folder)], self.log, environment, lock)

    def _own(self, port: int) -> dict[str, str]:
        return {
            **self._ui(port),
            HIDDEN_TEXT: hidden_text(self._conf.get(TEXT_REDACTION)),
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            ENGINE: str(self._folder),
        }

    def _ui(self, port: int) -> dict[str, str]:
        """The page on which Spark shows its work, on loopback: what a person sets of it goes before.

        A browser opens it without a token, so that nothing can be stopped there, nor Java be made to work. On a cluster
        it would not be on loopback alone: there it is a person who turns it on.
        """
        ours = {**_UI, "spark.ui.enabled": "false"}
        if self._settings.spark_is_local:
            ours = {**_UI, "spark.ui.port": str(draw_port(other_than=port))}
        return {**ours, **{name: value for name, value in self._settings.spark_settings.items() if name in ours}}


def conf_of(folder: Path) -> dict[str, str]:
    """The settings of Spark with which the engine of this folder is being started."""
    conf: dict[str, str] = json.loads((folder / "launch").read_text())["conf"]
    return conf


def announce(folder: Path, pid: int, ui: str = "") -> None:
    """Tell where the engine of this folder listens, for the engine itself, which answers from now on."""
    launched = json.loads((folder / "launch").read_text())
    address = Address(launched["port"], pid, launched["fingerprint"], secrets.token_hex(16))
    _write(folder / "ui", ui)
    _write(folder / "address", json.dumps({name: getattr(address, name) for name in _STORED}))


def _opened(settings: Settings) -> int:
    folder = settings.claim_folder("engine")
    try:
        return os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(folder, error) from None


def _locked(lock: int, how: int) -> bool:
    """Whether the lock could be taken; ``SetupError`` where the disk knows no locks."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _unusable(Path("engine"), error) from None
    return True


def _unusable(folder: Path, error: OSError) -> SetupError:
    action = "The home has to be yours, on a disk that knows locks: see LAKEHOUSE_HOME."
    return SetupError(f"The engine of the home cannot be used: {error.strerror}", where=str(folder), action=action)


def _write(file: Path, text: str) -> None:
    """Write a file that is whole from its first moment, and that nobody else can read."""
    written = file.with_name(f"{file.name}.new")
    written.unlink(missing_ok=True)
    written.touch(0o600)
    written.write_text(text, encoding="utf-8")
    written.replace(file)


def _command() -> list[str]:
    return [sys.executable, "-m", _SERVER]
