"""The embedded Kafka broker of a state folder: a real broker as a child process on loopback."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from lakehouse.errors import BrokerError
from lakehouse.local.kafka import Kafka
from lakehouse.local.ports import are_free, broker_answers, draw_ports
from lakehouse.local.process import Child
from lakehouse.settings import Settings
from lakehouse.settings.broker import Ports, broker_folder, embedded_ports, remembered_ports

_START_SECONDS = 60.0
_LEAVE_SECONDS = 5.0


class EmbeddedBroker:
    """The broker of one state folder. It belongs to who starts it, under a lock, and dies with that process.

    Its data, ports and log lie in ``HOME/broker`` and outlive it: the next start goes on with them.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = broker_folder(settings)
        self._kafka = Kafka(settings, self._folder)
        self._lock = FileLock(self._folder / "lock", thread_local=False)
        self._child: Child | None = None

    @property
    def log(self) -> Path:
        """The file that holds what the broker says."""
        return self._kafka.log

    @property
    def address(self) -> str:
        """Host and port for clients; they may change at a start. Raises ``BrokerError`` before the first."""
        return embedded_ports(self._settings).address

    @property
    def pid(self) -> int | None:
        """Number of the broker's process; ``None`` where this object has started none."""
        return self._child.pid if self._child else None

    @property
    def exit_code(self) -> int | None:
        """How the broker's process ended; ``None`` while it runs, or where this object has none."""
        return self._child.exit_code if self._child else None

    def alive(self) -> bool:
        """Whether the broker that this object started runs and answers."""
        return self._child is not None and self._child.alive() and self._answers()

    def start(self) -> None:
        """Start the broker and return when it answers. One that was stopped or killed goes on with its data.

        Remembered ports are used again; where another program has taken one, both are drawn anew.
        Raises ``BrokerError`` where another process runs the broker of this home or where it does not
        start, ``SetupError`` where Java or jars are missing.
        """
        self.stop()
        if not self._claim():
            fact = "Another process already runs the broker of this home"
            raise BrokerError(fact, where=str(self._folder), action="Use that one, or stop it first.")
        self._launch()

    def start_or_join(self) -> bool:
        """Start the broker, or wait until the one that another process runs answers; whether it was started.

        Raises what ``start`` raises, and ``BrokerError`` where the other one does not answer.
        """
        if not _wait(lambda: self._claim() or self._answers(), _START_SECONDS):
            fact = "The broker that another process runs for this home does not answer"
            raise BrokerError(fact, where=str(self.log), action="Stop that process and try again.")
        if not self._lock.is_locked:
            return False
        self._launch()
        return True

    def stop(self) -> None:
        """Stop the broker, within 10 seconds, and keep its data. A second call does nothing."""
        if self._child is not None:
            self._child.stop()
            self._child = None
        self._lock.release()

    def _claim(self) -> bool:
        self._settings.make_folder(self._folder.name)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        return True

    def _answers(self) -> bool:
        ports = remembered_ports(self._folder)
        return ports is not None and broker_answers(ports.broker)

    def _launch(self) -> None:
        try:
            command = self._kafka.command(self._ports())
            if not self._kafka.format():
                raise self._failed("The broker's data folder could not be prepared")
            self._child = Child(command, self.log)
            self._require_ready(self._child)
        except BaseException:
            self.stop()
            raise

    def _ports(self) -> Ports:
        ports = remembered_ports(self._folder)
        if ports is None:
            return draw_ports(self._folder)
        _wait(lambda: not self._kafka.in_use and are_free(ports), _LEAVE_SECONDS)
        if self._kafka.in_use:
            fact = "Another broker still uses the data of this home"
            raise BrokerError(fact, where=str(self._folder), action="Stop that broker and try again.")
        return ports if are_free(ports) else draw_ports(self._folder)

    def _require_ready(self, child: Child) -> None:
        _wait(lambda: self._answers() or not child.alive(), _START_SECONDS)
        if not child.alive():
            raise self._failed(f"The broker ended while it started, with exit code {child.exit_code}")
        if not self._answers():
            raise self._failed(f"The broker did not answer within {_START_SECONDS:.0f} seconds")

    def _failed(self, fact: str) -> BrokerError:
        cause = self._kafka.last_error()
        action = f"Its log says: {cause[:300]}" if cause else "Its log names no cause."
        return BrokerError(fact, where=str(self.log), action=action)


def _wait(condition: Callable[[], bool], limit: float) -> bool:
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def running_broker(settings: Settings) -> Iterator[str]:
    """Yield the address of a broker to use, starting the embedded one only where nobody has.

    A configured broker is yielded as it is, and so is the embedded one where another process of this home
    runs it or is starting it. Else it is started for the ``with`` block and stopped after it.
    """
    if settings.kafka_bootstrap_servers:
        yield settings.kafka_bootstrap_servers
        return
    broker = EmbeddedBroker(settings)
    started = broker.start_or_join()
    try:
        yield broker.address
    finally:
        if started:
            broker.stop()
