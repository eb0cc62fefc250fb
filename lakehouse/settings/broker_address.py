"""The address of the broker: the configured one, else the embedded one of this home. Nothing connects to it here."""

import json
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import BrokerError
from lakehouse.settings.environment import Settings

LOOPBACK = "127.0.0.1"
PORTS_FILE = "ports.json"


@dataclass(frozen=True)
class Ports:
    """The loopback ports of an embedded broker: one for clients, one for its own controller."""

    broker: int
    controller: int

    @property
    def address(self) -> str:
        """Host and port for clients."""
        return f"{LOOPBACK}:{self.broker}"


def bootstrap_servers(settings: Settings) -> str:
    """Return the configured servers, else the last address of the embedded broker of this home.

    Raises ``BrokerError`` if there is neither.
    """
    return settings.kafka_bootstrap_servers or embedded_ports(settings).address


def embedded_ports(settings: Settings) -> Ports:
    """Return the last ports of the embedded broker of this home; ``BrokerError`` if none has run here."""
    ports = remembered_ports(broker_folder(settings))
    if ports is None:
        raise BrokerError(
            "No broker is configured and none has run here yet",
            where=str(settings.home_folder),
            action="Start one with: lakehouse up broker - or set LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS.",
        )
    return ports


def broker_folder(settings: Settings) -> Path:
    """The folder of the embedded broker: its data, its ports and its log."""
    return settings.home_folder / "broker"


def remembered_ports(folder: Path) -> Ports | None:
    """Return the ports stored in this folder; ``None`` if there are none or they cannot be read."""
    try:
        return Ports(**json.loads((folder / PORTS_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
