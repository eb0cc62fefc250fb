"""The engine of a home: one Spark Connect server on loopback, which runs and commands of the home share.

The files of ``HOME/engine``:

- ``lock``: the engine holds it exclusively. Each command with its own Spark shares it, so both never run at once.
- ``launch``: the settings with which the engine starts.
- ``address``: where it listens, once it answers.
- ``token``: only its owner can read it.
- ``ui``: the URL of its Spark UI, or why there is none.
- ``log``: its output.
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
from lakehouse.local.embedded import draw_port
from lakehouse.local.java import find_java
from lakehouse.local.process import Child
from lakehouse.settings import Settings
from lakehouse.settings.addresses import LOOPBACK
from lakehouse.settings.spark_conf import HIDDEN_TEXT, TEXT_REDACTION, text_redaction_pattern

ENGINE = "spark.lakehouse.engine"  # the setting that holds the folder of the engine of a session
_ADDRESS_FIELDS = ("port", "pid", "fingerprint", "start")  # the fields in the file ``address``
_SERVER = "lakehouse.spark.engine_main"
_UI_CONF = {
    "spark.ui.enabled": "true",
    "spark.ui.killEnabled": "false",
    "spark.ui.heapHistogramEnabled": "false",
    "spark.ui.threadDumpsEnabled": "false",
}
_PATIENCE = 30.0  # seconds to wait for commands of the home that use their own Spark
_POLL = 0.1


class TakenError(SetupError):
    """The home already has a Spark, of a command or an engine; another engine can start when that has ended."""


@dataclass(frozen=True)
class Address:
    """The loopback port of an engine, the process id of its Java, its fingerprint and the id of this start.

    ``ui`` is the URL of the Spark UI, or the reason why there is none; empty if it is turned off.
    """

    port: int
    pid: int
    fingerprint: str
    start: str
    ui: str = field(default="", compare=False)

    def __str__(self) -> str:
        """The address and the Spark UI in one line."""
        return f"{LOOPBACK}:{self.port}{f', Spark UI {self.ui}' if self.ui else ''}"


def engine_folder(settings: Settings) -> Path:
    """The folder of the engine of the home; it may not exist yet."""
    return settings.home_folder / "engine"


def is_engine_running(folder: Path) -> bool:
    """Whether an engine of this folder runs: it holds the lock exclusively until it ends.

    Raises ``SetupError`` if another user owns it.
    """
    try:
        lock = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _engine_error(folder, error) from None
    try:
        return not _try_lock(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def share_lock(settings: Settings) -> int | None:
    """Prevent the start of an engine of the home as long as the returned descriptor is open; ``None`` if one runs.

    Raises ``SetupError`` if the disk refuses the lock.
    """
    lock = _open_lock(settings)
    if _try_lock(lock, fcntl.LOCK_SH):
        return lock
    os.close(lock)
    return None


def read_address(folder: Path) -> Address | None:
    """Return the address of the engine that started last; ``None`` if none has started, or it does not answer yet.

    Fields that another version added to the file are ignored.
    """
    try:
        fields = json.loads((folder / "address").read_text())
        address = Address(**{name: fields[name] for name in _ADDRESS_FIELDS})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    with suppress(OSError):
        return replace(address, ui=(folder / "ui").read_text())
    return address


def read_token(folder: Path) -> str:
    """Return the token that clients must send; ``SetupError`` if another user owns the engine."""
    try:
        return (folder / "token").read_text()
    except OSError as error:
        raise _engine_error(folder, error) from None


class EngineProcess:
    """The engine as a child process, which ends with the process that starts it."""

    def __init__(self, settings: Settings, conf: Mapping[str, str], fingerprint: str) -> None:
        self._settings = settings
        self._conf = conf
        self._fingerprint = fingerprint
        self._folder = engine_folder(settings)
        self._child: Child | None = None

    @property
    def log(self) -> Path:
        """The log file of the engine."""
        return self._folder / "log"

    @property
    def exit_code(self) -> int | None:
        """The exit code of the engine; ``None`` while it runs, or if this object has not started one."""
        return self._child.exit_code if self._child else None

    def start(self, patience: float = _PATIENCE) -> None:
        """Start the engine. It does not answer yet: clients wait until it does.

        Files of an earlier engine are removed. Raises ``SetupError`` if there is no suitable Java, ``TakenError`` if
        another engine of the home, or a command with its own Spark, runs for longer than ``patience`` seconds.
        """
        self.stop()
        lock = self._claim(patience)
        try:
            find_java()
            self._launch(lock)
        finally:
            os.close(lock)  # the engine has inherited it

    def stop(self) -> None:
        """Stop the engine, within 10 seconds. A second call does nothing."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _claim(self, patience: float) -> int:
        lock, deadline = _open_lock(self._settings), time.monotonic() + patience
        while not _try_lock(lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                os.close(lock)
                raise self._taken_error()
            time.sleep(_POLL)
        return lock

    def _taken_error(self) -> TakenError:
        command_runs = "A command of this home is using a Spark of its own"
        message = "Another engine of this home runs" if is_engine_running(self._folder) else command_runs
        return TakenError(
            message, where=str(self._folder), action="Wait until it has ended, then start the engine again."
        )

    def _launch(self, lock: int) -> None:
        port, token = draw_port(), secrets.token_urlsafe(32)
        for name in ("address", "ui", "log"):
            (self._folder / name).unlink(missing_ok=True)
        _write(self._folder / "token", token)
        launch = {"conf": {**self._conf, **self._engine_conf(port)}, "port": port, "fingerprint": self._fingerprint}
        _write(self._folder / "launch", json.dumps(launch))
        environment = {
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
            "PYSPARK_PYTHON": sys.executable,
        }
        if self._settings.spark_is_local:  # executors on other machines must reach the driver
            environment["SPARK_LOCAL_IP"] = LOOPBACK
        self._child = Child([*_command(), str(self._folder)], self.log, environment, lock)

    def _engine_conf(self, port: int) -> dict[str, str]:
        return {
            **self._ui_conf(port),
            HIDDEN_TEXT: text_redaction_pattern(self._conf.get(TEXT_REDACTION)),
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
            ENGINE: str(self._folder),
        }

    def _ui_conf(self, port: int) -> dict[str, str]:
        """The settings of the Spark UI, which is on loopback. Settings of the user have priority.

        A browser opens it without a token, so it cannot stop anything or put load on Java. With a cluster as master it
        would not be on loopback alone: there it is off unless the user turns it on.
        """
        defaults = {**_UI_CONF, "spark.ui.enabled": "false"}
        if self._settings.spark_is_local:
            defaults = {**_UI_CONF, "spark.ui.port": str(draw_port(other_than=port))}
        user_conf = self._settings.spark_settings
        return {**defaults, **{name: value for name, value in user_conf.items() if name in defaults}}


def read_launch_conf(folder: Path) -> dict[str, str]:
    """Return the Spark settings with which the engine of this folder starts."""
    conf: dict[str, str] = json.loads((folder / "launch").read_text())["conf"]
    return conf


def write_address(folder: Path, pid: int, ui: str = "") -> None:
    """Write the address of the engine of this folder. The engine itself calls this once it answers."""
    launch = json.loads((folder / "launch").read_text())
    address = Address(launch["port"], pid, launch["fingerprint"], secrets.token_hex(16))
    _write(folder / "ui", ui)
    _write(folder / "address", json.dumps({name: getattr(address, name) for name in _ADDRESS_FIELDS}))


def _open_lock(settings: Settings) -> int:
    folder = settings.claim_folder("engine")
    try:
        return os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _engine_error(folder, error) from None


def _try_lock(lock: int, mode: int) -> bool:
    """Try to take the lock; return whether that worked. ``SetupError`` if the disk does not support locks."""
    try:
        fcntl.flock(lock, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _engine_error(Path("engine"), error) from None
    return True


def _engine_error(folder: Path, error: OSError) -> SetupError:
    action = "Set LAKEHOUSE_HOME to a folder that you own, on a disk that supports locks."
    return SetupError(f"The engine of the home cannot be used: {error.strerror}", where=str(folder), action=action)


def _write(file: Path, text: str) -> None:
    """Write a file atomically; only its owner can read it."""
    temporary_file = file.with_name(f"{file.name}.new")
    temporary_file.unlink(missing_ok=True)
    temporary_file.touch(0o600)
    temporary_file.write_text(text, encoding="utf-8")
    temporary_file.replace(file)


def _command() -> list[str]:
    return [sys.executable, "-m", _SERVER]
