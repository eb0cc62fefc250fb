"""Type the steps of a page in a folder, as a person would, and compare what they print with the page."""

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from lakehouse.local.embedded import draw_port
from lakehouse_tests.helpers.pages import Step
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.waiting import wait_until

_READY = "Dagster is at"
_UP = "lakehouse up"
_STATUS = "lakehouse status"
_STATUS_SECONDS = 180.0  # until a run of the sensor has merged everything
_PREFIXES = ("LAKEHOUSE_", "PYTHON", "VIRTUAL_ENV", "DAGSTER_")


def user_environment(bin_folder: Path | None = None, **variables: str) -> dict[str, str]:
    """The environment of a user: without our settings except the folder of jars, and with a folder of commands."""
    environment = {
        name: value for name, value in os.environ.items() if name == "LAKEHOUSE_JARS" or not name.startswith(_PREFIXES)
    }
    folders = {"PATH": f"{bin_folder}{os.pathsep}{environment['PATH']}"} if bin_folder else {}
    return environment | folders | variables


class TypedPage:
    """Steps of a page, and the folder in which the next one is typed.

    Each ``sh`` step starts in the folder in which the previous one ended. ``lakehouse up`` runs in the background, on a
    port of its own. A step in Python is the content of the file ``declaration``.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], declaration: str = "") -> None:
        self.folder, self.port = folder, draw_port()
        self._environment, self._declaration = environment, declaration
        self._up: subprocess.Popen[bytes] | None = None

    def follow(self, steps: Iterable[Step]) -> list[str]:
        """Type every step; return the steps whose output differs from the page, each with its output."""
        return [difference for step in steps if (difference := self._follow_step(step))]

    def _follow_step(self, step: Step) -> str:
        text = without_make(step.text)
        if step.language == "python":
            (self.folder / self._declaration).write_text(text, encoding="utf-8")
        elif text.strip() == _UP:
            self._start()
        elif step.language == "sh":
            return self._compare(step, text)
        return ""

    def _compare(self, step: Step, text: str) -> str:
        """Type a step; return it with its output if the output differs from the page.

        The status is typed again until it is as on the page, as by a person who waits for the sensor.
        """
        outputs: list[str] = []

        def is_as_shown() -> bool:
            outputs.append(self._type(text))
            return step.shows(outputs[-1])

        limit = _STATUS_SECONDS if text.startswith(_STATUS) else 0.0
        return "" if wait_until(is_as_shown, limit) else f"{text}\nprints:\n{outputs[-1]}"

    def _type(self, text: str) -> str:
        command = ["bash", "-ec", f"{text}\npwd"]
        result = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, text + result.stdout[-3000:] + result.stderr[-3000:]
        output, _, folder = result.stdout.rstrip("\n").rpartition("\n")
        self.folder = Path(folder)
        return output

    def _start(self) -> None:
        log = self.folder / "up.log"
        command = [*_UP.split(), "--port", str(self.port)]
        with log.open("w") as log_output:
            up = subprocess.Popen(command, cwd=self.folder, env=self._environment, stdout=log_output, stderr=log_output)
        self._up = up
        assert wait_until(lambda: _READY in log.read_text() or up.poll() is not None, 180)
        assert _READY in log.read_text(), log.read_text()[-3000:]

    def stop(self) -> None:
        """Stop ``lakehouse up``, if it runs."""
        if self._up:
            self._up.send_signal(signal.SIGINT)
            self._up.wait(timeout=60)


def without_make(text: str) -> str:
    """Replace ``make`` and a target by the command that the target runs: its prerequisites exist."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipes = re.findall(r"^([a-z-]+):.*\n\t@?(?:exec )?\$\(BIN\)/(.+)$", makefile, re.MULTILINE)
    return re.sub(r"^make ([a-z-]+)$", lambda match: dict(recipes).get(match[1], match[0]), text, flags=re.MULTILINE)
