"""Fetch jars with the Ivy in the pyspark package: no Maven and no download URLs are needed."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

from lakehouse.errors import SetupError
from lakehouse.local.java import find_java

_HERE = Path(__file__).parent
_LIMIT_SECONDS = 900.0


def fetch(group: str, folder: Path) -> None:
    """Fetch the jars of one configuration of ``ivy.xml`` into ``folder/<group>/``.

    After an interruption, only missing jars are fetched. Raises ``SetupError`` if there is no network, no Java or no
    pyspark package.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "ivy.log"
    with log.open("wb") as output:
        try:
            subprocess.run(_command(group, folder), stdout=output, stderr=output, timeout=_LIMIT_SECONDS, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            raise SetupError(
                f"Jars of the group {group} are missing from the cache and could not be fetched",
                where=f"details in {log}",
                action="Connect to the network once and run the same command again.",
            ) from None


def _command(group: str, folder: Path) -> list[str]:
    return [
        *(str(find_java().path), "-jar", str(_ivy_jar())),
        *("-settings", str(_HERE / "ivysettings.xml")),
        *("-ivy", str(_HERE / "ivy.xml")),
        *("-confs", group),
        *("-cache", str(folder / "cache")),
        *("-retrieve", f"{folder}/[conf]/[artifact]-[revision].[ext]"),
    ]


def _ivy_jar() -> Path:
    package = find_spec("pyspark")
    folders = package.submodule_search_locations if package else None
    jars = [jar for folder in folders or [] for jar in Path(folder).glob("jars/ivy-*.jar")]
    if not jars:
        raise SetupError(
            "The pyspark package is missing or contains no Ivy",
            action="Install lakehouse again (in its repository: make install).",
        )
    return jars[0]
