"""Where the schema registry is: that of the settings, else the embedded one of this home. Nothing is asked of it."""

from pathlib import Path

from lakehouse.errors import RegistryError
from lakehouse.settings.broker_address import LOOPBACK
from lakehouse.settings.environment import Settings

PORT_FILE = "port"
_API = "apis/ccompat/v7"


def registry_url(settings: Settings) -> str:
    """Return the address under which the registry's API is found; ``RegistryError`` where there is none."""
    if settings.registry_url:
        return settings.registry_url.rstrip("/")
    require_own(settings)
    port = remembered_port(registry_folder(settings))
    if port is None:
        raise RegistryError(
            "No schema registry is configured and none has run here yet",
            where=str(settings.home_folder),
            action="Start one with: lakehouse up registry - or set LAKEHOUSE_REGISTRY_URL.",
        )
    return f"http://{LOOPBACK}:{port}/{_API}"


def require_own(settings: Settings) -> None:
    """Refuse an embedded registry beside an outside broker: its ids would mean other schemas than the producers'."""
    if settings.kafka_bootstrap_servers:
        raise RegistryError(
            "A broker is configured and no schema registry: an embedded one would give its own ids to schemas",
            where=settings.kafka_bootstrap_servers,
            action="Set LAKEHOUSE_REGISTRY_URL to the registry of those who write to this broker.",
        )


def registry_folder(settings: Settings) -> Path:
    """The folder of the embedded registry: its data, its port and its log."""
    return settings.home_folder / "registry"


def remembered_port(folder: Path) -> int | None:
    """The port that was kept in this folder; ``None`` where there is none that can be read."""
    try:
        return int((folder / PORT_FILE).read_text())
    except (OSError, ValueError):
        return None
