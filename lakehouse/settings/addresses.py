"""The addresses of the broker and of the schema registry: the configured ones, else the embedded ones of this home."""

import json
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import BrokerError, RegistryError
from lakehouse.settings.environment import Settings

LOOPBACK = "127.0.0.1"
PORTS_FILE = "ports.json"
PORT_FILE = "port"
_API = "apis/ccompat/v7"


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


def registry_url(settings: Settings) -> str:
    """Return the URL of the registry's API; ``RegistryError`` if no registry is configured and none has run here."""
    if settings.registry_url:
        return settings.registry_url.rstrip("/")
    require_own_registry(settings)
    port = remembered_port(registry_folder(settings))
    if port is None:
        raise RegistryError(
            "No schema registry is configured and none has run here yet",
            where=str(settings.home_folder),
            action="Start one with: lakehouse up registry - or set LAKEHOUSE_REGISTRY_URL.",
        )
    return f"http://{LOOPBACK}:{port}/{_API}"


def require_own_registry(settings: Settings) -> None:
    """Refuse an embedded registry if the broker is an external one.

    The ids of an embedded registry would mean other schemas than the ids that the producers write.
    """
    if settings.kafka_bootstrap_servers:
        raise RegistryError(
            "A broker is configured, but no schema registry. An embedded registry would give schemas its own ids",
            where=settings.kafka_bootstrap_servers,
            action="Set LAKEHOUSE_REGISTRY_URL to the registry that the producers of this broker use.",
        )


def registry_folder(settings: Settings) -> Path:
    """The folder of the embedded registry: its data, its port and its log."""
    return settings.home_folder / "registry"


def remembered_port(folder: Path) -> int | None:
    """The port stored in this folder; ``None`` if there is none or it cannot be read."""
    try:
        return int((folder / PORT_FILE).read_text())
    except (OSError, ValueError):
        return None
