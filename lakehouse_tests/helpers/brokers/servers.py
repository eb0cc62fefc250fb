"""A server that gets into trouble: it is killed, frozen, restarted, and started on other data."""

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
    """The broker or the registry of a home, which tests harm."""

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
        """Keep a copy of what it holds; it is restarted."""
        self.embedded.stop()
        shutil.copytree(self.data, folder)
        self.embedded.start()

    def start_with(self, folder: Path | None) -> None:
        """Start it with a copy of what it held once, or with nothing."""
        self.embedded.stop()
        shutil.rmtree(self.data)
        if folder:
            shutil.copytree(folder, self.data)
        self.embedded.start()

    @contextmanager
    def restarted_when_dead(self) -> Iterator[None]:
        """While the block runs, start the server again as soon as it was killed."""

        def restart() -> None:
            assert wait_until(lambda: self.embedded.exit_code is not None, 60)
            self.embedded.start()

        thread = Thread(target=restart)
        thread.start()
        try:
            yield
        finally:
            thread.join()
