"""A server that fails: tests kill it, freeze it, restart it and start it on other data."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from lakehouse.local.embedded import Embedded
from lakehouse.settings import Settings
from lakehouse_tests.helpers.waiting import wait_until


class OneServer:
    """The broker or the registry of a home."""

    def __init__(self, settings: Settings, embedded: Embedded) -> None:
        self.settings = settings
        self.embedded = embedded

    @property
    def data(self) -> Path:
        return self.settings.home_folder / self.embedded.name / "data"

    def signal(self, number: signal.Signals) -> None:
        assert self.embedded.pid
        os.kill(self.embedded.pid, number)

    def copy_data(self, folder: Path) -> None:
        """Copy its data into a folder; this restarts the server."""
        self.embedded.stop()
        shutil.copytree(self.data, folder)
        self.embedded.start()

    def start_with(self, folder: Path | None, copy_of_present: Path | None = None) -> None:
        """Restart it with a copy of its data, or without data; its present data may be copied into another folder."""
        self.embedded.stop()
        if copy_of_present:
            shutil.copytree(self.data, copy_of_present)
        shutil.rmtree(self.data)
        if folder:
            shutil.copytree(folder, self.data)
        self.embedded.start()

    @contextmanager
    def restarted_when_dead(self) -> Iterator[None]:
        """Start the server again when it is killed during the block."""

        def restart() -> None:
            assert wait_until(lambda: self.embedded.exit_code is not None, 60)
            self.embedded.start()

        thread = Thread(target=restart)
        thread.start()
        try:
            yield
        finally:
            thread.join()
