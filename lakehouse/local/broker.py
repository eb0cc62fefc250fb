"""The embedded Kafka broker of a home: a real broker as a child process on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehouse.errors import BrokerError
from lakehouse.local.embedded import Embedded, wait
from lakehouse.local.kafka_server import Kafka
from lakehouse.local.ports import are_free, broker_answers, draw_ports
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import Ports, broker_folder, embedded_ports, remembered_ports

_SHUTDOWN_SECONDS = 5.0


class EmbeddedBroker(Embedded):
    """The broker of one home, in ``HOME/broker``."""

    name = "broker"
    error = BrokerError

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, broker_folder(settings))
        self._kafka = Kafka(settings, self._folder)

    @property
    def log(self) -> Path:
        """The log file of the broker."""
        return self._kafka.log

    @property
    def address(self) -> str:
        """Host and port for clients; a start may change them. Raises ``BrokerError`` before the first start."""
        return embedded_ports(self._settings).address

    def _command(self) -> list[str]:
        command = self._kafka.command(self._choose_ports())
        if not self._kafka.format():
            raise self._failure("The broker's data folder could not be prepared")
        return command

    def _answers(self) -> bool:
        ports = remembered_ports(self._folder)
        return ports is not None and broker_answers(ports.broker)

    def _last_error(self) -> str:
        return self._kafka.last_error()

    def _choose_ports(self) -> Ports:
        ports = remembered_ports(self._folder)
        if ports is None:
            return draw_ports(self._folder)
        wait(lambda: not self._kafka.is_in_use and are_free(ports), _SHUTDOWN_SECONDS)
        if self._kafka.is_in_use:
            message = "Another broker still uses the data of this home"
            raise BrokerError(message, where=str(self._folder), action="Stop that broker and try again.")
        return ports if are_free(ports) else draw_ports(self._folder)


@contextmanager
def running_broker(settings: Settings) -> Iterator[str]:
    """Yield the address of a broker; start the embedded one if necessary.

    A configured broker is yielded unchanged, and so is the embedded one if another process of this home runs or
    starts it. Otherwise the embedded broker runs for the ``with`` block and stops after it.
    """
    if settings.kafka_bootstrap_servers:
        yield settings.kafka_bootstrap_servers
        return
    with EmbeddedBroker(settings).run_if_needed() as address:
        yield address
