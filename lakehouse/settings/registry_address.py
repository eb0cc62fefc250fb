"""The address of the schema registry: the configured one, else the embedded one. Nothing connects to it here."""

from pathlib import Path

from lakehouse.errors import RegistryError
from lakehouse.settings.broker_address import LOOPBACK
from lakehouse.settings.environment import Settings

PORT_FILE = "port"
_API = "apis/ccompat/v7"


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
