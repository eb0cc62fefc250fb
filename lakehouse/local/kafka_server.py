"""Kafka on one machine: its command, its properties and its data folder."""

import fcntl
import subprocess
from base64 import urlsafe_b64encode
from pathlib import Path
from uuid import uuid4

from lakehouse.local.jars import ensure_jars
from lakehouse.local.java import find_java
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import LOOPBACK, Ports

_HERE = Path(__file__).parent
_FORMAT_SECONDS = 60.0


class Kafka:
    """Kafka in one folder, with its data, its properties and its log."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._data = folder / "data"
        self._properties = folder / "server.properties"
        self.log = folder / "broker.log"

    @property
    def is_in_use(self) -> bool:
        """Whether a broker still uses the data: it takes a moment to end after its parent was killed."""
        lock = self._data / ".lock"
        if not lock.exists():
            return False
        with lock.open("ab") as handle:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def command(self, ports: Ports) -> list[str]:
        """Write the properties for these ports; return the command that runs the broker in the foreground."""
        client, controller = f"PLAINTEXT://{ports.address}", f"{LOOPBACK}:{ports.controller}"
        address_properties = (
            f"listeners={client},CONTROLLER://{controller}\n"
            f"advertised.listeners={client}\n"
            f"controller.quorum.voters=1@{controller}\n"
            f"log.dirs={_escape_property(str(self._data))}\n"
        )
        self._properties.write_text((_HERE / "broker.properties").read_text() + address_properties)
        return [*self._java("512m"), "kafka.Kafka", str(self._properties)]

    def format(self) -> bool:
        """Format the data folder with the last written properties; a formatted folder stays unchanged.

        Return whether it is formatted now. If not, the log has the reason.
        """
        if (self._data / "meta.properties").exists():
            return True
        tool = [*self._java("128m"), "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        command = [*tool, "--cluster-id", new_cluster_id(), "--config", str(self._properties)]
        with self.log.open("ab") as output:
            try:
                result = subprocess.run(command, stdout=output, stderr=output, check=False, timeout=_FORMAT_SECONDS)
            except subprocess.TimeoutExpired:
                return False
            return result.returncode == 0

    def _java(self, memory: str) -> list[str]:
        flags = [f"-Xmx{memory}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        logging = f"-Dlog4j2.configurationFile={(_HERE / 'kafka-log4j2.properties').as_uri()}"
        class_path = ":".join(str(jar) for jar in ensure_jars(self._settings, "broker"))
        return [str(find_java().path), *flags, logging, "-cp", class_path]

    def last_error(self) -> str:
        """The last line of the log that contains an error; empty if there is none."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return next((line.strip() for line in reversed(lines) if "ERROR" in line or "Exception" in line), "")


def _escape_property(text: str) -> str:
    """Escape a value of a Java properties file: non-ASCII characters become UTF-16 code units."""
    code_units = text.encode("utf-16-be").hex("-", 2).split("-")
    return "".join(f"\\u{unit}" if int(unit, 16) > 0x7F else chr(int(unit, 16)) for unit in code_units)


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's format that does not start with a dash, as an option would."""
    while True:
        text = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
